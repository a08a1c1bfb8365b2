// tests/build/link_b.cu: see link_a.cu.
#include "../../spira.cuh"

bool link_b();

bool link_b() {
    spira::conv_args none = {};
    return spira::status_failed(spira::conv(&none, nullptr, 0, nullptr));
}
