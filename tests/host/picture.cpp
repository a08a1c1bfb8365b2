// tests/host/picture.cpp: the pictures of the examples. Writes to build/tmp.
#include "../support/test.h"

#include "../../examples/scan_picture.h"
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

// Copies the contents of stored deflate blocks, and checks the Adler-32 checksum.
static bool png_inflate(const uint8_t *zlib, int64_t size, decoded *out) {
    int64_t at = 2;
    bool last = false;
    out->bytes = 0;
    if (size < 2 || (zlib[0] * 256 + zlib[1]) % 31 || (zlib[0] & 15) != 8 || (zlib[1] & 32)) {
        return false;
    }
    while (!last && at + 5 <= size) {
        int length = zlib[at + 1] | zlib[at + 2] << 8, check = zlib[at + 3] | zlib[at + 4] << 8;
        last = zlib[at] & 1;
        if (zlib[at] > 1 || (length ^ check) != 0xffff || at + 5 + length > size) {
            return false;
        }
        memcpy(out->image + out->bytes, zlib + at + 5, (size_t)length);
        out->bytes += length;
        at += 5 + length;
    }
    uint32_t a = 1, b = 0;
    for (int64_t i = 0; i < out->bytes; ++i) {
        a = (a + out->image[i]) % 65521;
        b = (b + a) % 65521;
    }
    return last && at + 4 == size && big_endian(zlib + at) == (b << 16 | a);
}

// The file at `path` is a valid PNG that shows rgb [height, width, 3].
static bool png_shows(const char *path, const uint8_t *rgb, int width, int height) {
    int64_t size = 0, most = 200 + (int64_t)height * (width * 3 + 100);
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
           CHECK(png_inflate(zlib, packed, &image)) &&
           CHECK(image.bytes == (int64_t)height * (1 + 3 * width));
    for (int y = 0; good && y < height; ++y) {
        const uint8_t *row = image.image + (int64_t)y * (1 + 3 * width);
        good = CHECK(row[0] == 0 &&
                     memcmp(row + 1, rgb + (int64_t)y * width * 3, (size_t)width * 3) == 0);
    }
    return good;
}

TEST(picture_png_is_valid) {
    const int sizes[][2] = {{1, 1}, {3, 2}, {2, 300}, {257, 19}, {picture_most_side, 2}};
    const char *path = SCAN_TEMPORARY("picture.png");
    for (auto &size : sizes) {
        int64_t bytes = (int64_t)size[0] * size[1] * 3;
        uint8_t *rgb = guarded_new<uint8_t>(bytes);
        for (int64_t i = 0; i < bytes; ++i) {
            rgb[i] = (uint8_t)(i * i / 7 + i);
        }
        REQUIRE_OK(picture_write_png(path, rgb, size[0], size[1]));
        CHECK(png_shows(path, rgb, size[0], size[1]));
        rgb[bytes / 2] ^= 1; // a planted error
        test_state.quiet = 1;
        int failures = test_state.failures;
        bool shown = png_shows(path, rgb, size[0], size[1]);
        test_state.failures = failures;
        test_state.quiet = 0;
        CHECK(!shown);
    }
}

TEST(picture_png_refuses) {
    uint8_t rgb[3] = {1, 2, 3};
    const char *path = SCAN_TEMPORARY("refused.png");
    CHECK_STATUS(picture_write_png(nullptr, rgb, 1, 1), status_null_pointer);
    CHECK_STATUS(picture_write_png(path, nullptr, 1, 1), status_null_pointer);
    CHECK_STATUS(picture_write_png(path, rgb, 0, 1), status_bad_size);
    CHECK_STATUS(picture_write_png(path, rgb, 1, 0), status_bad_size);
    CHECK_STATUS(picture_write_png(path, rgb, picture_most_side + 1, 1), status_bad_size);
    CHECK_STATUS(picture_write_png(path, rgb, 1, picture_most_side + 1), status_bad_size);
    CHECK_STATUS(picture_write_png("build/tmp/none/x.png", rgb, 1, 1), status_file_open);
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

TEST(picture_shows_the_highest) {
    // Two columns. The left one's lower voxel comes last; the right one has the larger y.
    const int32_t coords[9] = {0, 0, 9, 1, 1, 9, 0, 0, -5}, classes[3] = {0, 1, 2};
    picture image;
    REQUIRE_OK(picture_from_above(coords, classes, 3, 2, &image));
    CHECK(image.width == 2 && image.height == 2);
    REQUIRE(image.rgb != nullptr);
    uint8_t zero[3], one[3];
    picture_class_colour(0, zero);
    picture_class_colour(1, one);
    CHECK(memcmp(image.rgb + 6, zero, 3) == 0);      // bottom left, at full brightness
    CHECK(memcmp(image.rgb + 3, one, 3) == 0);       // top right
    CHECK(memcmp(image.rgb, image.rgb + 9, 3) == 0); // the background
    CHECK(image.rgb[0] < 40);
    picture_free(&image);
    CHECK(!image.rgb && !image.width);
    picture_free(&image);
    picture_free(nullptr);
}

TEST(picture_does_not_depend_on_the_order) {
    const int extent[3] = {90, 60, 4};
    const int64_t voxels = 3000;
    int32_t *coords = guarded_new<int32_t>(voxels * 3), *turned = guarded_new<int32_t>(voxels * 3);
    int32_t *classes = guarded_new<int32_t>(voxels), *turned_classes = guarded_new<int32_t>(voxels);
    REQUIRE_OK(scan_scene_random(9, voxels, extent, coords));
    for (int64_t i = 0; i < voxels; ++i) {
        classes[i] = (int32_t)(i % 20);
        turned_classes[voxels - 1 - i] = classes[i];
        memcpy(turned + (voxels - 1 - i) * 3, coords + i * 3, 12);
    }
    picture a, b;
    REQUIRE_OK(picture_from_above(coords, classes, voxels, 20, &a));
    REQUIRE_OK(picture_from_above(turned, turned_classes, voxels, 20, &b));
    CHECK(a.width == 18 && a.height == 12); // 5 voxels a pixel
    CHECK(memcmp(a.rgb, b.rgb, (size_t)a.width * (size_t)a.height * 3) == 0);
    picture_free(&a);
    picture_free(&b);
}

TEST(picture_keeps_within_its_side) {
    for (int side : {1, 2, 7, 99, 100, 101, 1000, 0, -1}) {
        for (int length : {1, 2, 50, 100, 101, 4000, INT32_MAX}) {
            int32_t coords[6] = {0, 0, 0, length - 1, (length - 1) / 4, 0};
            picture image;
            REQUIRE_OK(picture_from_above(coords, nullptr, 2, side, &image));
            int most = side > 0 ? side : picture_default_side;
            CHECK(image.width > 0 && image.width <= most && image.height <= image.width);
            CHECK(image.width > most / 2 || image.width == length * picture_most_zoom);
            picture_free(&image);
        }
    }
    int32_t ends[6] = {INT32_MIN, INT32_MIN, INT32_MIN, INT32_MAX, INT32_MAX, INT32_MAX};
    picture image;
    REQUIRE_OK(picture_from_above(ends, nullptr, 2, 10, &image));
    CHECK(image.width <= 10 && image.height <= 10);
    picture_free(&image);
}

TEST(picture_of_nothing_and_refusals) {
    int32_t coords[3] = {0, 0, 0};
    picture image;
    REQUIRE_OK(picture_from_above(nullptr, nullptr, 0, 0, &image));
    CHECK(image.width > 0 && image.height > 0 && image.rgb);
    picture_free(&image);
    CHECK_STATUS(picture_from_above(coords, nullptr, 1, 0, nullptr), status_null_pointer);
    CHECK_STATUS(picture_from_above(nullptr, nullptr, 1, 0, &image), status_null_pointer);
    CHECK(!image.rgb && !image.width);
    CHECK_STATUS(picture_from_above(coords, nullptr, -1, 0, &image), status_bad_size);
    CHECK_STATUS(picture_from_above(coords, nullptr, 1, picture_most_side + 1, &image),
                 status_bad_size);
}

TEST(picture_of_a_street) {
    scan_cloud cloud;
    REQUIRE_OK(scan_scene_street(1, &cloud));
    int32_t *coords = guarded_new<int32_t>(cloud.rows * 3);
    int32_t *classes = guarded_new<int32_t>(cloud.rows);
    for (int64_t i = 0; i < cloud.rows; ++i) {
        for (int axis = 0; axis < 3; ++axis) {
            coords[i * 3 + axis] = (int32_t)floorf(cloud.points[i * 4 + axis] / 0.05f);
        }
        classes[i] = (int32_t)(cloud.points[i * 4 + 3] * 20);
    }
    picture image;
    REQUIRE_OK(picture_from_above(coords, classes, cloud.rows, 600, &image));
    CHECK(image.width > 300 && image.width <= 600);
    const char *path = SCAN_TEMPORARY("street.png");
    REQUIRE_OK(picture_write_png(path, image.rgb, image.width, image.height));
    CHECK(png_shows(path, image.rgb, image.width, image.height));
    picture_free(&image);
    scan_free(&cloud);
}
