// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/build/units/include.cu: includes all of spira and calls nothing.
#include "../../../spira.cuh"
