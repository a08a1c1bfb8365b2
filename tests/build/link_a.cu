// tests/build/link_a.cu: built for sm_80 and linked with link_b.cu, built for sm_90a, into one
// binary. Were a kernel or a launcher shared, the linker would keep that of one architecture for
// both.
#include "../../spira.cuh"

bool link_b();

// The same in both files: what must not be shared is what has the same name.
bool link_a() {
    spira::conv_args none = {};
    return spira::status_failed(spira::conv(&none, nullptr, 0, nullptr));
}

int main() {
    return link_a() && link_b() ? 0 : 1;
}
