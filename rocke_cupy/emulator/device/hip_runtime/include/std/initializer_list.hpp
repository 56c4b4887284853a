/* The compiler builds objects of this type itself, as a pointer and a length. */
#pragma once
namespace std {
template <class E>
class initializer_list {
    const E *first;
    decltype(sizeof(0)) length;

public:
    using value_type = E;
    using reference = const E &;
    using const_reference = const E &;
    using size_type = decltype(sizeof(0));
    using iterator = const E *;
    using const_iterator = const E *;

    constexpr initializer_list() noexcept : first(nullptr), length(0) {}
    constexpr size_type size() const noexcept { return length; }
    constexpr iterator begin() const noexcept { return first; }
    constexpr iterator end() const noexcept { return first + length; }
};
}  // namespace std
