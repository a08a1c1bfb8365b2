// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// tests/host/picture.cpp: the pictures of the examples. Writes to build/tmp.
#include "../support/test.h"

#include "../../examples/scan_legend.h"
#include "../../examples/scan_picture.h"
#include "../../examples/scan_png.h"
#include "../../examples/scan_scene.h"

#include <math.h>
#include <sys/stat.h>

using namespace spira;
using namespace scan;

// The path of a file in build/tmp; `name` is a literal.
#define SCAN_TEMPORARY(name) (mkdir("build", 0777), mkdir("build/tmp", 0777), "build/tmp/" name)

static uint32_t big_endian(const uint8_t *p) {
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

// Computed bit by bit, unlike the writer's.
static uint32_t crc_of(const uint8_t *data, size_t bytes) {
    uint32_t crc = 0xffffffffu;
    for (size_t i = 0; i < bytes * 8; ++i) {
        crc ^= (uint32_t)(data[i / 8] >> (i % 8) & 1);
        crc = crc >> 1 ^ (crc & 1 ? 0xedb88320u : 0);
    }
    return ~crc;
}

// Reads a PNG as the examples write it: checks chunks, checksums and blocks, returns the image.
struct decoded {
    int width, height;
    int64_t bytes;  // of the image with its filter bytes
    uint8_t *image; // [height, 1 + 3 * width]
};

// Copies the data of all IDAT chunks to `zlib` and returns their bytes; -1 if malformed.
static int64_t png_chunks(const uint8_t *file, int64_t size, decoded *out, uint8_t *zlib) {
    int64_t at = 8, taken = 0;
    bool ended = false;
    while (!ended) {
        if (at + 12 > size || at + 12 + (int64_t)big_endian(file + at) > size) {
            return -1;
        }
        uint32_t bytes = big_endian(file + at);
        const uint8_t *type = file + at + 4, *data = type + 4;
        if (crc_of(type, bytes + 4) != big_endian(data + bytes)) {
            return -1;
        }
        if (at == 8) {
            const uint8_t kind[5] = {8, 2, 0, 0, 0};
            if (memcmp(type, "IHDR", 4) || bytes != 13 || memcmp(data + 8, kind, 5)) {
                return -1;
            }
            out->width = (int)big_endian(data);
            out->height = (int)big_endian(data + 4);
        } else if (memcmp(type, "IDAT", 4) == 0) {
            memcpy(zlib + taken, data, bytes);
            taken += bytes;
        } else if (memcmp(type, "IEND", 4)) {
            return -1;
        }
        ended = memcmp(type, "IEND", 4) == 0;
        at += 12 + bytes;
    }
    return at == size ? taken : -1;
}

// The bits of a deflate stream, the lowest of each byte first.
struct png_reader {
    const uint8_t *from;
    int64_t bits, at;
    bool good;
};

static int png_take(png_reader *r, int count, bool highest_first) {
    int value = 0;
    for (int i = 0; i < count; ++i, ++r->at) {
        r->good = r->good && r->at < r->bits;
        const int bit = r->good ? r->from[r->at / 8] >> (r->at % 8) & 1 : 0;
        value = highest_first ? value << 1 | bit : value | bit << i;
    }
    return value;
}

// A literal, or a length's code, of the fixed codes (RFC 1951, 3.2.6).
static int png_symbol(png_reader *r) {
    int code = png_take(r, 7, true);
    if (code < 24) {
        return 256 + code;
    }
    code = code << 1 | png_take(r, 1, true);
    if (code >= 48 && code < 192) {
        return code - 48;
    }
    return code >= 192 && code < 200 ? 280 + code - 192
                                     : 144 + (code << 1 | png_take(r, 1, true)) - 400;
}

// Undoes one block of fixed codes, and checks the Adler-32 checksum.
static bool png_inflate(const uint8_t *zlib, int64_t size, int64_t most, decoded *out) {
    static const int lengths[29] = {3,  4,  5,  6,  7,  8,  9,  10, 11,  13,  15,  17,  19,  23, 27,
                                    31, 35, 43, 51, 59, 67, 83, 99, 115, 131, 163, 195, 227, 258};
    static const int distances[30] = {
        1,   2,   3,   4,   5,   7,    9,    13,   17,   25,   33,   49,   65,    97,    129,
        193, 257, 385, 513, 769, 1025, 1537, 2049, 3073, 4097, 6145, 8193, 12289, 16385, 24577};
    png_reader r = {zlib, (size - 4) * 8, 16, size > 8};
    if ((zlib[0] * 256 + zlib[1]) % 31 || (zlib[0] & 15) != 8 || (zlib[1] & 32) ||
        png_take(&r, 3, false) != 3) {
        return false;
    }
    int symbol = 0;
    for (out->bytes = 0; r.good && (symbol = png_symbol(&r)) != 256;) {
        int64_t length = 1, distance = 0;
        if (symbol > 256) {
            const int n = symbol - 257, extra = n < 8 || n == 28 ? 0 : n / 4 - 1;
            if (n > 28) {
                return false;
            }
            length = lengths[n] + png_take(&r, extra, false);
            const int d = png_take(&r, 5, true);
            if (d > 29) {
                return false;
            }
            distance = distances[d] + png_take(&r, d < 4 ? 0 : d / 2 - 1, false);
        }
        if (distance > out->bytes || out->bytes + length > most) {
            return false;
        }
        for (; length; --length, ++out->bytes) {
            out->image[out->bytes] = distance ? out->image[out->bytes - distance] : (uint8_t)symbol;
        }
    }
    uint32_t a = 1, b = 0;
    for (int64_t i = 0; i < out->bytes; ++i) {
        a = (a + out->image[i]) % 65521;
        b = (b + a) % 65521;
    }
    return r.good && (r.at + 7) / 8 == size - 4 && big_endian(zlib + size - 4) == (b << 16 | a);
}

// The file at `path` is a valid PNG that shows rgb [height, width, 3].
static bool png_shows(const char *path, const uint8_t *rgb, int width, int height) {
    int64_t size = 0, most = 200 + (int64_t)height * (width * 4 + 100);
    uint8_t *file = guarded_new<uint8_t>(most), *zlib = guarded_new<uint8_t>(most);
    decoded image = {0, 0, 0, guarded_new<uint8_t>(most)};
    FILE *stream = fopen(path, "rb");
    if (!CHECK(stream != nullptr)) {
        return false;
    }
    size = (int64_t)fread(file, 1, (size_t)most, stream);
    fclose(stream);
    bool good = CHECK(size > 8 && size < most && memcmp(file, "\x89PNG\r\n\x1a\n", 8) == 0);
    int64_t packed = good ? png_chunks(file, size, &image, zlib) : -1;
    good = CHECK(packed > 0) && CHECK(image.width == width && image.height == height) &&
           CHECK(png_inflate(zlib, packed, most, &image)) &&
           CHECK(image.bytes == (int64_t)height * (1 + 3 * width));
    for (int y = 0; good && y < height; ++y) {
        const uint8_t *row = image.image + (int64_t)y * (1 + 3 * width);
        good = CHECK(row[0] == 0 &&
                     memcmp(row + 1, rgb + (int64_t)y * width * 3, (size_t)width * 3) == 0);
    }
    return good;
}

// Images without a pattern, of one colour, of equal rows, and of runs of all lengths.
TEST(picture_png_is_valid) {
    const int sizes[][2] = {{1, 1}, {3, 2}, {2, 300}, {257, 19}, {png_most_side, 2}};
    const char *path = SCAN_TEMPORARY("picture.png");
    for (int i = 0; i < 20; ++i) {
        const int width = sizes[i / 4][0], height = sizes[i / 4][1];
        const int64_t bytes = (int64_t)width * height * 3;
        uint8_t *rgb = guarded_new<uint8_t>(bytes);
        for (int64_t n = 0; n < bytes; ++n) {
            const int64_t x = n % (3 * width);
            rgb[n] = (uint8_t)(i % 4 == 0   ? n * n / 7 + n
                               : i % 4 == 1 ? 200
                               : i % 4 == 2 ? x * x / 5
                                            : sqrt((double)(n / 3)) * 40);
        }
        REQUIRE_OK(png_write(path, rgb, width, height));
        CHECK(png_shows(path, rgb, width, height));
        rgb[bytes / 2] ^= 1; // a planted error
        test_state.quiet = 1;
        int failures = test_state.failures;
        bool shown = png_shows(path, rgb, width, height);
        test_state.failures = failures;
        test_state.quiet = 0;
        CHECK(!shown);
    }
}

TEST(picture_png_refuses) {
    uint8_t rgb[3] = {1, 2, 3};
    const char *path = SCAN_TEMPORARY("refused.png");
    CHECK_STATUS(png_write(nullptr, rgb, 1, 1), status_null_pointer);
    CHECK_STATUS(png_write(path, nullptr, 1, 1), status_null_pointer);
    CHECK_STATUS(png_write(path, rgb, 0, 1), status_bad_size);
    CHECK_STATUS(png_write(path, rgb, 1, 0), status_bad_size);
    CHECK_STATUS(png_write(path, rgb, png_most_side + 1, 1), status_bad_size);
    CHECK_STATUS(png_write(path, rgb, 1, png_most_side + 1), status_bad_size);
    CHECK_STATUS(png_write("build/tmp/none/x.png", rgb, 1, 1), status_file_open);
}

TEST(picture_palette_is_distinct) {
    uint8_t a[3], b[3];
    for (int i = 0; i < picture_colours; ++i) {
        picture_class_colour(i, a);
        for (int j = -1; j < i; ++j) {
            picture_class_colour(j, b);
            CHECK(abs(a[0] - b[0]) + abs(a[1] - b[1]) + abs(a[2] - b[2]) > 20);
        }
        picture_class_colour(i + picture_colours, b);
        CHECK(memcmp(a, b, 3) == 0);
    }
    picture_class_colour(INT32_MIN, a); // no reading before the palette
    picture_class_colour(INT32_MAX, a);
}

static picture_mark mark_at(float x, float y, float z, float edge, uint8_t red) {
    return {{x, y, z}, edge, {red, 1, 2}};
}

// Pixels of a colour, their mean column and row.
struct picture_spot {
    int64_t pixels;
    double x, y;
};

static picture_spot picture_find(const picture *image, uint8_t red) {
    picture_spot spot = {};
    for (int64_t i = 0; i < (int64_t)image->width * image->height; ++i) {
        if (image->rgb[3 * i] == red && image->rgb[3 * i + 1] == 1) {
            ++spot.pixels;
            spot.x += (double)(i % image->width);
            spot.y += (double)(i / image->width);
        }
    }
    spot.x /= (double)spot.pixels;
    spot.y /= (double)spot.pixels;
    return spot;
}

TEST(picture_shows_what_is_nearest_in_its_size) {
    const picture_mark marks[5] = {
        mark_at(0, 0, 1, 0, 100), mark_at(0, 0, 2, 0, 101), // the higher one hides the lower one
        mark_at(0, 0, 0, 0, 102), mark_at(20, 8, 0, 4, 103), mark_at(20, 0, 0, 0, 104)};
    const picture_view above = {0, 0, 3, false}, aslant = {0, 0.8f, 3, false};
    picture image, order;
    picture_mark turned[5];
    REQUIRE_OK(picture_draw(&above, marks, 5, &image));
    CHECK(picture_find(&image, 100).pixels == 0 && picture_find(&image, 102).pixels == 0);
    CHECK(picture_find(&image, 101).pixels == 9);
    const picture_spot low = picture_find(&image, 101), square = picture_find(&image, 103);
    const double edge = 4.0 * (double)image.scale;
    CHECK(fabs(sqrt((double)square.pixels) - edge) <= 1);
    CHECK(fabs(square.x - low.x - 20 * (double)image.scale) < 2); // x to the right, y upwards
    CHECK(fabs(low.y - square.y - 8 * (double)image.scale) < 2);
    for (int i = 0; i < 5; ++i) {
        turned[i] = marks[4 - i];
    }
    REQUIRE_OK(picture_draw(&above, turned, 5, &order));
    CHECK(order.width == image.width && order.height == image.height);
    CHECK(memcmp(order.rgb, image.rgb, (size_t)image.width * (size_t)image.height * 3) == 0);
    picture_free(&order);
    picture_free(&image);
    CHECK(!image.rgb && !image.width);
    picture_free(&image);
    picture_free(nullptr);
    REQUIRE_OK(picture_draw(&aslant, marks, 5, &image)); // what is higher is drawn higher
    CHECK(picture_find(&image, 101).y < picture_find(&image, 100).y);
    CHECK(picture_find(&image, 100).y < picture_find(&image, 102).y);
    picture_free(&image);
}

// Squares side by side leave no gap.
TEST(picture_tiles_squares) {
    picture_mark marks[40];
    for (int i = 0; i < 40; ++i) {
        marks[i] = mark_at(0.3f * (float)i, 5, 0, 0.3f, (uint8_t)(50 + i));
    }
    const picture_view above = {0, 0, 1, false};
    picture image;
    REQUIRE_OK(picture_draw(&above, marks, 40, &image));
    const int y = (image.height - picture_caption) / 2;
    for (int i = 0, x = 0; x < image.width; ++x) {
        const uint8_t *rgb = image.rgb + ((int64_t)y * image.width + x) * 3;
        i += rgb[1] == 1 && rgb[0] == 50 + i + 1;
        CHECK(x < 90 || x > image.width - 90 || (rgb[1] == 1 && rgb[0] == 50 + i));
    }
    picture_free(&image);
}

// One point in a thousand that is far off is not shown, and changes nothing else.
// What stands under a picture is not clipped at the right: rows of the narrowest picture.
TEST(picture_caption_fits) {
    static uint8_t pixels[picture_least * picture_caption * 3];
    const uint8_t rgb[3] = {1, 2, 3};
    picture image = {picture_least, picture_caption, 0, pixels};
    int x = 16;
    for (int c = 0; c < scene_classes; ++c) {
        x = legend_colour(&image, x, 8, rgb, scene_class_name(c));
    }
    CHECK(x <= picture_least);
    for (image.scale = 40.0f; image.scale > 1e-4f; image.scale *= 0.7f) { // a bar for each size
        CHECK(legend_scale(&image, 0, 8) - legend_text(&image, 0, 8, " 100000 m") <= 101);
    }
    image.scale = 0.7f;
    x = legend_scale(&image, 16, 8);
    x = legend_text(&image, x, 8, "   SparseResNet-Large, random weights   mean IoU 0.123");
    CHECK(x <= picture_least);
    CHECK(16 + legend_text(&image, 0, 8,
                           "12345.6 s on the CPU: reference, not the product's speed") <=
          picture_least);
}

TEST(picture_is_cropped) {
    picture_mark *marks = guarded_new<picture_mark>(1000);
    for (int i = 0; i < 1000; ++i) {
        marks[i] = mark_at((float)(i % 50), (float)(i / 50), 0, 0, 7);
    }
    const picture_view above = {0, 0, 2, false};
    picture image, other;
    REQUIRE_OK(picture_draw(&above, marks, 1000, &image));
    CHECK(image.width == picture_width && image.height < picture_height + picture_caption);
    CHECK(fabs((double)image.scale - picture_width / 50.0) < 1);
    marks[500].at[0] = 3000;
    marks[501].at[1] = -1e9f;
    REQUIRE_OK(picture_draw(&above, marks, 1000, &other));
    CHECK(image.scale == other.scale && image.height == other.height);
    picture_free(&other);
    picture_free(&image);
}

TEST(picture_of_nothing_and_of_one_point) {
    const picture_mark mark = mark_at(3, 4, 5, 0, 9);
    const picture_view above = {0, 0, 2, false};
    for (int count = 0; count < 2; ++count) {
        picture image;
        REQUIRE_OK(picture_draw(&above, &mark, count, &image));
        CHECK(image.width >= picture_least && image.height > picture_caption && image.rgb);
        CHECK_EQUAL(picture_find(&image, 9).pixels, count * 4);
        picture_free(&image);
    }
}

TEST(picture_normalises) {
    float values[1000], sorted[1000];
    for (int i = 0; i < 1000; ++i) {
        values[i] = (float)((i * 7) % 1000);
    }
    picture_normalise(values, 1000, sorted);
    CHECK(values[0] == 0 && values[1] < 0.01f && values[142] == 1); // 0, 7, 994
    CHECK(fabsf(values[500] - 0.5f) < 0.01f);                       // 500
    picture_normalise(values, 0, sorted);
}

TEST(picture_of_a_street) {
    scan_cloud cloud;
    REQUIRE_OK(scan_scene_street(1, &cloud));
    picture_mark *marks = guarded_new<picture_mark>(cloud.rows);
    for (int64_t i = 0; i < cloud.rows; ++i) {
        const float *p = cloud.points + 4 * i;
        marks[i] = mark_at(p[0], p[1], p[2], 0, (uint8_t)(p[3] * 255));
    }
    const picture_view aslant = {0.5f, 0.9f, 2, false};
    picture image;
    REQUIRE_OK(picture_draw(&aslant, marks, cloud.rows, &image));
    CHECK(image.width == picture_width);
    const char *path = SCAN_TEMPORARY("street.png");
    REQUIRE_OK(png_write(path, image.rgb, image.width, image.height));
    CHECK(png_shows(path, image.rgb, image.width, image.height));
    struct stat file;
    CHECK(stat(path, &file) == 0 && file.st_size < image.width * image.height * 3 / 4);
    picture_free(&image);
    scan_free(&cloud);
}
