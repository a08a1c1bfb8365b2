// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/host/numeric.cpp: numeric.h.
#include "../support/test.h"

#include "../../spira/numeric.h"

#include <math.h>

using namespace spira;

static bool is_nan_f16(uint16_t h) {
    return (h & 0x7fff) > 0x7c00;
}

static bool is_nan_bf16(uint16_t h) {
    return (h & 0x7fff) > 0x7f80;
}

TEST(numeric_halves_round_trip) {
    for (uint32_t bits = 0; bits < 65536; ++bits) {
        const uint16_t h = (uint16_t)bits, back = f16_from_float(f16_to_float(h)),
                       back_bf16 = bf16_from_float(bf16_to_float(h));
        if (is_nan_f16(h)) {
            CHECK(is_nan_f16(back) && isnan(f16_to_float(h)));
            CHECK_EQUAL(back >> 15, h >> 15);
        } else {
            CHECK_EQUAL(back, h);
        }
        if (is_nan_bf16(h)) {
            CHECK(is_nan_bf16(back_bf16) && isnan(bf16_to_float(h)));
        } else {
            CHECK_EQUAL(back_bf16, h);
        }
    }
}

TEST(numeric_f16_values) {
    CHECK_EQUAL(f16_to_float(0x3c00), 1.0f);
    CHECK_EQUAL(f16_to_float(0xc000), -2.0f);
    CHECK_EQUAL(f16_to_float(0x0001), 0x1p-24f);
    CHECK_EQUAL(f16_to_float(0x03ff), 1023 * 0x1p-24f);
    CHECK_EQUAL(f16_to_float(0x0400), 0x1p-14f);
    CHECK_EQUAL(f16_to_float(0x7bff), 65504.0f);
    CHECK_EQUAL(f16_to_float(0x7c00), INFINITY);
    CHECK_EQUAL(f16_to_float(0xfc00), -INFINITY);
    CHECK(signbit(f16_to_float(0x8000)) && f16_to_float(0x8000) == 0);
    CHECK_EQUAL(f16_from_float(-0.0f), 0x8000);
    CHECK_EQUAL(f16_from_float(65504.0f), 0x7bff);
    CHECK_EQUAL(f16_from_float(nextafterf(65520.0f, 0.0f)), 0x7bff);
    CHECK_EQUAL(f16_from_float(65520.0f), 0x7c00); // the tie goes to even, which is infinity
    CHECK_EQUAL(f16_from_float(-1e30f), 0xfc00);
    CHECK_EQUAL(f16_from_float(-INFINITY), 0xfc00);
    CHECK(is_nan_f16(f16_from_float(NAN)));
    CHECK(is_nan_f16(f16_from_float(float_from_bits(0x7f800001)))); // its payload is cut off
    CHECK_EQUAL(f16_from_float(0x1p-25f), 0x0000);                  // ties to even: zero
    CHECK_EQUAL(f16_from_float(-1e-30f), 0x8000);
    CHECK_EQUAL(f16_from_float(0x1p-149f), 0x0000);
}

TEST(numeric_bf16_values) {
    CHECK_EQUAL(bf16_to_float(0x3f80), 1.0f);
    CHECK_EQUAL(bf16_from_float(3.4028235e38f), 0x7f80);
    CHECK_EQUAL(bf16_from_float(-3.4028235e38f), 0xff80);
    CHECK_EQUAL(bf16_from_float(INFINITY), 0x7f80);
    CHECK_EQUAL(bf16_from_float(-INFINITY), 0xff80);
    CHECK_EQUAL(bf16_from_float(-0.0f), 0x8000);
    CHECK_EQUAL(bf16_from_float(0x1p-133f), 0x0001); // the smallest subnormal
    CHECK(is_nan_bf16(bf16_from_float(NAN)));
    CHECK(is_nan_bf16(bf16_from_float(float_from_bits(0x7f800001)))); // must not become infinity
    CHECK(is_nan_bf16(bf16_from_float(float_from_bits(0xffffffff)))); // must not wrap to zero
}

// Both neighbours of every boundary between two halves, and the boundary itself.
TEST(numeric_rounds_to_nearest_even) {
    for (uint32_t h = 0; h < 0x7bff; ++h) {
        float low = f16_to_float((uint16_t)h), high = f16_to_float((uint16_t)(h + 1));
        float tie = low + (high - low) / 2; // exact: fp32 has the bits
        CHECK_EQUAL(f16_from_float(tie), h % 2 ? h + 1 : h);
        CHECK_EQUAL(f16_from_float(nextafterf(tie, 0)), h);
        CHECK_EQUAL(f16_from_float(nextafterf(tie, INFINITY)), h + 1);
        CHECK_EQUAL(f16_from_float(-tie), 0x8000 | (h % 2 ? h + 1 : h));
    }
    for (uint32_t h = 0; h < 0x7f7f; ++h) {
        uint32_t tie = (h << 16) | 0x8000;
        CHECK_EQUAL(bf16_from_float(float_from_bits(tie)), h % 2 ? h + 1 : h);
        CHECK_EQUAL(bf16_from_float(float_from_bits(tie - 1)), h);
        CHECK_EQUAL(bf16_from_float(float_from_bits(tie + 1)), h + 1);
    }
}

// g++ 12 for aarch64 defines __FLT16_MAX__, but has no _Float16 in C++.
#if defined(__ARM_FP16_FORMAT_IEEE)
#define COMPILER_F16 __fp16
#elif defined(__FLT16_MAX__)
#define COMPILER_F16 _Float16
#endif

#ifdef COMPILER_F16
TEST(numeric_f16_agrees_with_the_compiler) {
    for (uint32_t h = 0; h < 65536; ++h) {
        COMPILER_F16 theirs;
        uint16_t bits = (uint16_t)h;
        memcpy(&theirs, &bits, sizeof theirs);
        if (!is_nan_f16(bits)) {
            CHECK_EQUAL(f16_to_float(bits), (float)theirs);
        }
    }
    random_state r = random_make(3);
    for (int i = 0; i < 2000000; ++i) {
        float f = float_from_bits(random_u32(&r));
        if (i % 2) { // where halves live
            f = ldexpf(random_float(&r), random_int(&r, -28, 18));
        }
        if (f != f) {
            continue;
        }
        COMPILER_F16 theirs = (COMPILER_F16)f;
        uint16_t bits;
        memcpy(&bits, &theirs, sizeof bits);
        CHECK_EQUAL(f16_from_float(f), bits);
    }
}
#endif

TEST(numeric_tf32_keeps_ten_bits) {
    CHECK_EQUAL(tf32_round(1.0f), 1.0f);
    CHECK_EQUAL(tf32_round(1 + 0x1p-10f), 1 + 0x1p-10f);
    CHECK_EQUAL(tf32_round(1 + 0x1p-11f), 1 + 0x1p-10f); // ties go away from zero
    CHECK_EQUAL(tf32_round(-1 - 0x1p-11f), -1 - 0x1p-10f);
    CHECK_EQUAL(tf32_round(nextafterf(1 + 0x1p-11f, 0)), 1.0f);
    CHECK_EQUAL(tf32_round(3.4028235e38f), INFINITY);
    CHECK_EQUAL(tf32_round(INFINITY), INFINITY);
    CHECK_EQUAL(tf32_round(-INFINITY), -INFINITY);
    CHECK(isnan(tf32_round(NAN)));
    CHECK(signbit(tf32_round(-0.0f)));
    random_state r = random_make(4);
    for (int i = 0; i < 100000; ++i) {
        float f = ldexpf(random_float(&r), random_int(&r, -100, 100)), t = tf32_round(f);
        CHECK_EQUAL(float_bits(t) & 0x1fff, 0u);
        CHECK_EQUAL(tf32_round(t), t);
        CHECK(fabs((double)t - f) <= numeric_epsilon(numeric_tf32) * fabs((double)f));
    }
}

TEST(numeric_epsilon_bounds_one_rounding) {
    random_state r = random_make(5);
    for (numeric n : {numeric_f32, numeric_tf32, numeric_f16, numeric_bf16}) {
        double worst = 0;
        for (int i = 0; i < 100000; ++i) {
            float f = 1.0f + 0.5f * (random_float(&r) + 1.0f); // [1, 2): where it is largest
            double error = fabs((double)numeric_operand(n, f) - f) / f;
            CHECK(error <= numeric_epsilon(n));
            worst = error > worst ? error : worst;
        }
        CHECK(n == numeric_f32 || worst > 0.9 * numeric_epsilon(n)); // and is not generous
    }
}

TEST(numeric_loads_and_stores) {
    CHECK_EQUAL(numeric_size(numeric_f32), 4);
    CHECK_EQUAL(numeric_size(numeric_tf32), 4);
    CHECK_EQUAL(numeric_size(numeric_f16), 2);
    CHECK_EQUAL(numeric_size(numeric_bf16), 2);
    for (int n = -1; n <= 4; ++n) {
        CHECK_EQUAL(numeric_valid((numeric)n), n >= 0 && n <= 3);
    }
    CHECK_EQUAL(numeric_name(numeric_tf32), "tf32");
    CHECK_EQUAL(numeric_name((numeric)7), "?");
    random_state r = random_make(6);
    for (numeric n : {numeric_f32, numeric_tf32, numeric_f16, numeric_bf16}) {
        const int count = 100;
        char *array = guarded_new<char>(count * numeric_size(n));
        for (int i = 0; i < count; ++i) {
            float f = random_float(&r) * 100;
            numeric_store(n, array, i, f);
            CHECK_EQUAL(numeric_load(n, array, i), numeric_stored(n, f));
            CHECK_EQUAL(numeric_operand(n, numeric_stored(n, f)), numeric_operand(n, f));
        }
    }
    float f = 1 + 0x1p-20f; // tf32 is rounded when it is used, not when it is stored
    CHECK_EQUAL(numeric_stored(numeric_tf32, f), f);
    CHECK_EQUAL(numeric_operand(numeric_tf32, f), 1.0f);
}

TEST(numeric_tells_what_is_finite) {
    for (uint32_t sign : {0u, 0x80000000u}) {
        for (uint32_t bits : {0u, 1u, 0x00800000u, 0x3f800000u, 0x7f7fffffu}) {
            CHECK(float_is_finite(float_from_bits(sign | bits)));
        }
        for (uint32_t bits : {0x7f800000u, 0x7f800001u, 0x7fc00000u, 0x7fffffffu}) {
            CHECK(!float_is_finite(float_from_bits(sign | bits)));
        }
    }
}
