// spira/conv/vectors.cuh: scale and shift of a slice's channels, as the epilogues of hopper/,
// portable/ and exact.cuh read them from shared memory.
#ifndef SPIRA_CONV_VECTORS_CUH
#define SPIRA_CONV_VECTORS_CUH

#include "epilogue.cuh"

namespace spira {

// Loads scale and shift of a channel of the slice, the bias folded into the shift (conv_output_of).
//
// channel  the slice's first; columns: of the slice; i: the channel's number in it
// outputs  shared.scale: scales, and the shifts from `most` on
template <int most, typename S>
SPIRA_DEVICE void conv_scale_load(const conv_params &p, int channel, int columns, int i,
                                  S &shared) {
    if (i < columns) {
        bool inside = channel + i < p.cout;
        float scale = inside && p.epilogue.scale ? p.epilogue.scale[channel + i] : 1.0f;
        float shift = inside && p.epilogue.shift ? p.epilogue.shift[channel + i] : 0.0f;
        float bias = inside && p.epilogue.bias ? p.epilogue.bias[channel + i] : 0.0f;
        shared.scale[i] = scale;
        shared.scale[most + i] = fmaf(bias, scale, shift);
    }
}

// The same of the shortcut. The epilogue applies one scale to both, the shortcut's; so the
// accumulators of the offsets are rescaled by scale / scale' first (shared.ratio). |scale'| is at
// least 2^-60 |scale|, so that the ratio does not overflow: the change is below the rounding error.
template <int most, typename S>
SPIRA_DEVICE void conv_shortcut_load(const conv_params &p, int channel, int columns, int i,
                                     S &shared) {
    const conv_params_shortcut &s = p.shortcut;
    if (i < columns) {
        const bool inside = channel + i < p.cout;
        const float scale = shared.scale[i], least = fabsf(scale) * 0x1p-60f;
        float own = inside && s.scale ? s.scale[channel + i] : 1.0f;
        float shift = inside && s.shift ? s.shift[channel + i] : 0.0f;
        float bias = inside && s.bias ? s.bias[channel + i] : 0.0f;
        shared.scale[most + i] += fmaf(bias, own, shift);
        own = fabsf(own) < least ? copysignf(least, own) : own;
        shared.scale[i] = own;
        shared.ratio[i] = own == 0.0f ? 1.0f : scale / own;
    }
}

} // namespace spira

#endif
