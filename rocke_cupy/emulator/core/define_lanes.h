/* First reading of a vector table: each line becomes a lane function. list_lanes.h is the second. */

/* The rows and a lane's values of the first so many sources. */
#define ROWS1 ROW(a, 0)
#define ROWS2 ROWS1; ROW(b, 1)
#define ROWS3 ROWS2; ROW(c, 2)
#define READ1(A) CALC_##A a = READ_##A(a)
#define READ2(A, B) READ1(A); CALC_##B b = READ_##B(b)
#define READ3(A, B, C) READ2(A, B); CALC_##C c = READ_##C(c)
#define RESULT(D, expression) CALC_##D out = (CALC_##D)(expression); WRITE_##D(out)

#define V0(name)                                                                                                      \
    static void lanes_##name(const Rows *r) { (void)r; }
#define V1(name, D, A, expression)                                                                                    \
    static void lanes_##name(const Rows *r) {                                                                         \
        DESTINATION; ROWS1;                                                                                           \
        FOR_LANES { READ1(A); RESULT(D, expression); }                                                                \
    }
#define V2(name, D, A, B, expression)                                                                                 \
    static void lanes_##name(const Rows *r) {                                                                         \
        DESTINATION; ROWS2;                                                                                           \
        FOR_LANES { READ2(A, B); RESULT(D, expression); }                                                             \
    }
#define V3(name, D, A, B, C, expression)                                                                              \
    static void lanes_##name(const Rows *r) {                                                                         \
        DESTINATION; ROWS3;                                                                                           \
        u32 imm = r->imm;                                                                                             \
        (void)imm;                                                                                                    \
        FOR_LANES { READ3(A, B, C); RESULT(D, expression); }                                                          \
    }
/* N2, N3: as V2 and V3; the expression sees the mode. */
#define N2(name, D, A, B, expression)                                                                                 \
    static void lanes_##name(const Rows *r) {                                                                         \
        DESTINATION; ROWS2;                                                                                           \
        u32 mode = r->mode;                                                                                           \
        FOR_LANES { READ2(A, B); RESULT(D, expression); }                                                             \
    }
#define N3(name, D, A, B, C, expression)                                                                              \
    static void lanes_##name(const Rows *r) {                                                                         \
        DESTINATION; ROWS3;                                                                                           \
        u32 mode = r->mode;                                                                                           \
        FOR_LANES { READ3(A, B, C); RESULT(D, expression); }                                                          \
    }
/* VA2: the destination is also source c. */
#define VA2(name, D, A, B, expression) V3(name, D, A, B, D, expression)
/* VV3: a fourth source, VCC as a lane mask, that the text does not show. */
#define VV3(name, D, A, B, C, expression)                                                                             \
    static void lanes_##name(const Rows *r) {                                                                         \
        DESTINATION; ROWS3; ROW(vcc, 3);                                                                              \
        FOR_LANES { READ3(A, B, C); u32 vcc = READ_m64(vcc); RESULT(D, expression); }                                 \
    }
/* VM2, VM3: a lane mask beside the result; the expression sets `carry` to 0 or 1. */
#define VM2(name, D, A, B, expression)                                                                                \
    static void lanes_##name(const Rows *r) {                                                                         \
        DESTINATION; ROWS2;                                                                                           \
        u32 *mask = r->mask;                                                                                          \
        FOR_LANES { READ2(A, B); u32 carry = 0; RESULT(D, expression); mask[i] = 0u - carry; }                        \
    }
#define VM3(name, D, A, B, C, expression)                                                                             \
    static void lanes_##name(const Rows *r) {                                                                         \
        DESTINATION; ROWS3;                                                                                           \
        u32 *mask = r->mask;                                                                                          \
        FOR_LANES { READ3(A, B, C); u32 carry = 0; RESULT(D, expression); mask[i] = 0u - carry; }                     \
    }
/* T1: as V1, on the transcendental unit. */
#define T1(name, D, A, expression) V1(name, D, A, expression)
/* W1..W3, WA2, WM3, WV3: as their V forms, with fp64 operands. */
#define W1 V1
#define W2 V2
#define W3 V3
#define WA2 VA2
#define WM3 VM3
#define WV3 VV3
/* One half of a packed instruction: fp32 pairs (PF) and 16-bit pairs (PH). */
#define PF2 V2
#define PF3 V3
#define PH2 V2
#define PH3 V3
/* C2: a comparison; the form v_cmpx_ also writes EXEC. */
#define C2(name, A, B, expression)                                                                                    \
    static void lanes_##name(const Rows *r) {                                                                         \
        ROWS2;                                                                                                        \
        u32 *mask = r->mask;                                                                                          \
        FOR_LANES { READ2(A, B); (void)a, (void)b; mask[i] = 0u - (u32)(expression); }                                \
    }
