// tests/build/units/include.cu: includes all of spira and calls nothing.
#include "../../../spira.cuh"
