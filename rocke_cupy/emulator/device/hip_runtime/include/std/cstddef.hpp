#pragma once
#define NULL __null
#define offsetof(type, member) __builtin_offsetof(type, member)
namespace std {
using size_t = decltype(sizeof(0));
using ptrdiff_t = decltype((char *)0 - (char *)0);
using nullptr_t = decltype(nullptr);
}  // namespace std
using std::ptrdiff_t;
