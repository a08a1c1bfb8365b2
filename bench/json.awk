# SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
# bench/json.awk: reads the benchmarks' JSON lines, for table.awk and plot.awk. POSIX awk.

# The value of a key in the line at hand, without quotes; "" if it is not there.
function value(key,    at, rest) {
    at = index($0, "\"" key "\":")
    if (!at)
        return ""
    rest = substr($0, at + length(key) + 3)
    sub(/^ */, "", rest)
    if (substr(rest, 1, 1) == "\"")
        return substr(rest, 2, index(substr(rest, 2), "\"") - 1)
    sub(/[,}].*/, "", rest)
    return rest
}

# The networks of examples/detectors.h, which have a table and a plot of their own.
function is_deployed(net) {
    return net ~ /^(VoxelBackBone8x|SpMiddleResNetFHD|BEVFusion|VoxelNeXt|SpUNet-v1m1)$/
}
