/* Second reading of a vector table: each line becomes a row of the instruction list. */
#undef V0
#undef V1
#undef V2
#undef V3
#undef N2
#undef N3
#undef VA2
#undef VV3
#undef VM2
#undef VM3
#undef T1
#undef W1
#undef W2
#undef W3
#undef WA2
#undef WM3
#undef WV3
#undef PF2
#undef PF3
#undef PH2
#undef PH3
#undef C2
#define LANE_ROW(name, form, unit, how) {#name, form, FORMAT_PLAIN, unit, how, lanes_##name},
#define V0(name) {#name, ":", FORMAT_PLAIN, UNIT_VALU, execute_nothing, lanes_##name},
#define V1(name, D, A, expression) LANE_ROW(name, #D ":" #A, UNIT_VALU, execute_lanes)
#define V2(name, D, A, B, expression) LANE_ROW(name, #D ":" #A "," #B, UNIT_VALU, execute_lanes)
#define V3(name, D, A, B, C, expression) LANE_ROW(name, #D ":" #A "," #B "," #C, UNIT_VALU, execute_lanes)
#define N2 V2
#define N3 V3
#define VA2(name, D, A, B, expression) LANE_ROW(name, #D ":" #A "," #B ",=" #D, UNIT_VALU, execute_lanes)
#define VV3(name, D, A, B, C, expression) LANE_ROW(name, #D ":" #A "," #B "," #C ",vcc", UNIT_VALU, execute_lanes)
#define VM2(name, D, A, B, expression) LANE_ROW(name, #D ",m64:" #A "," #B, UNIT_VALU, execute_lanes)
#define VM3(name, D, A, B, C, expression) LANE_ROW(name, #D ",m64:" #A "," #B "," #C, UNIT_VALU, execute_lanes)
#define T1(name, D, A, expression) LANE_ROW(name, #D ":" #A, UNIT_TRANS, execute_lanes)
#define W1(name, D, A, expression) LANE_ROW(name, #D ":" #A, UNIT_VALU, execute_lanes_wide)
#define W2(name, D, A, B, expression) LANE_ROW(name, #D ":" #A "," #B, UNIT_VALU, execute_lanes_wide)
#define W3(name, D, A, B, C, expression) LANE_ROW(name, #D ":" #A "," #B "," #C, UNIT_VALU, execute_lanes_wide)
#define WA2(name, D, A, B, expression) LANE_ROW(name, #D ":" #A "," #B ",=" #D, UNIT_VALU, execute_lanes_wide)
#define WM3(name, D, A, B, C, expression) LANE_ROW(name, #D ",m64:" #A "," #B "," #C, UNIT_VALU, execute_lanes_wide)
#define WV3(name, D, A, B, C, expression) LANE_ROW(name, #D ":" #A "," #B "," #C ",vcc", UNIT_VALU, execute_lanes_wide)
#define PF2(name, D, A, B, expression) LANE_ROW(name, "pf32:pf32,pf32", UNIT_VALU, execute_packed32)
#define PF3(name, D, A, B, C, expression) LANE_ROW(name, "pf32:pf32,pf32,pf32", UNIT_VALU, execute_packed32)
#define PH2(name, D, A, B, expression) LANE_ROW(name, "p" #D ":p" #A ",p" #B, UNIT_VALU, execute_packed16)
#define PH3(name, D, A, B, C, expression) LANE_ROW(name, "p" #D ":p" #A ",p" #B ",p" #C, UNIT_VALU, execute_packed16)
#define C2(name, A, B, expression)                                                                                    \
    {"v_cmp_" #name, "m64:" #A "," #B, FORMAT_PLAIN, UNIT_VALU, execute_compare, lanes_##name},                       \
    {"v_cmpx_" #name, "m64:" #A "," #B, FORMAT_PLAIN, UNIT_VALU, execute_compare_exec, lanes_##name},
