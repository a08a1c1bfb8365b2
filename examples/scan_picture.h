// examples/scan_picture.h: draws voxels from above into a PNG, on the host, without a library.
//
//   scan::picture image;
//   SPIRA_TRY(scan::picture_from_above(coords, classes, voxels, 0, &image));
//   spira::status s = scan::picture_write_png("above.png", image.rgb, image.width, image.height);
//   scan::picture_free(&image);
#ifndef SPIRA_EXAMPLES_SCAN_PICTURE_H
#define SPIRA_EXAMPLES_SCAN_PICTURE_H

#include "../spira/base/integer.h"
#include "../spira/status.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

namespace scan {

enum picture_limits {
    picture_default_side = 1200,
    picture_most_side = 21844, // a row and its filter byte fill one stored block: 65535 bytes
    picture_most_zoom = 16,    // pixels per voxel
    picture_colours = 20,
};

// An image. All zero is the empty image, which owns no memory.
struct picture {
    int width, height;
    uint8_t *rgb; // [height, width, 3], top row first
};

// Frees the memory of a picture and zeroes it. A null pointer or a second call does nothing.
SPIRA_API void picture_free(picture *image) {
    if (image) {
        free(image->rgb);
        memset(image, 0, sizeof *image);
    }
}

// ---- PNG ----------------------------------------------------------------------------------------

// A PNG file under construction, with the two running checksums of the format.
struct picture_png {
    FILE *file;
    bool good;
    uint32_t crc;             // of the chunk so far, inverted
    uint32_t adler[2];        // of the image data so far
    uint32_t remainders[256]; // of the CRC polynomial, for each byte
};

SPIRA_API void picture_png_start(picture_png *png, FILE *file) {
    png->file = file;
    png->good = true;
    png->crc = 0;
    png->adler[0] = 1;
    png->adler[1] = 0;
    for (uint32_t byte = 0; byte < 256; ++byte) {
        uint32_t remainder = byte;
        for (int bit = 0; bit < 8; ++bit) {
            remainder = remainder & 1 ? 0xedb88320u ^ (remainder >> 1) : remainder >> 1;
        }
        png->remainders[byte] = remainder;
    }
}

SPIRA_API void picture_png_bytes(picture_png *png, const void *data, size_t bytes) {
    const uint8_t *from = (const uint8_t *)data;
    for (size_t i = 0; i < bytes; ++i) {
        png->crc = png->remainders[(png->crc ^ from[i]) & 255] ^ (png->crc >> 8);
    }
    png->good = png->good && fwrite(data, 1, bytes, png->file) == bytes;
}

// Writes a number in big-endian order, as PNG requires.
SPIRA_API void picture_png_number(picture_png *png, uint32_t number) {
    uint8_t bytes[4] = {(uint8_t)(number >> 24), (uint8_t)(number >> 16), (uint8_t)(number >> 8),
                        (uint8_t)number};
    picture_png_bytes(png, bytes, 4);
}

SPIRA_API void picture_png_chunk(picture_png *png, const char *type, uint32_t bytes) {
    picture_png_number(png, bytes);
    png->crc = 0xffffffffu; // covers the type and the data, not the length
    picture_png_bytes(png, type, 4);
}

SPIRA_API void picture_png_chunk_end(picture_png *png) {
    picture_png_number(png, ~png->crc);
}

// Writes image data, which Adler-32 covers as well.
SPIRA_API void picture_png_image(picture_png *png, const uint8_t *data, size_t bytes) {
    for (size_t i = 0; i < bytes; ++i) {
        png->adler[0] = (png->adler[0] + data[i]) % 65521;
        png->adler[1] = (png->adler[1] + png->adler[0]) % 65521;
    }
    picture_png_bytes(png, data, bytes);
}

// Writes a row as one stored deflate block in one IDAT chunk, so that no buffer is needed.
SPIRA_API void picture_png_row(picture_png *png, const uint8_t *rgb, int width, bool last) {
    uint32_t bytes = 1 + 3 * (uint32_t)width;
    uint8_t block[5] = {last, (uint8_t)bytes, (uint8_t)(bytes >> 8), (uint8_t)~bytes,
                        (uint8_t)(~bytes >> 8)};
    uint8_t filter = 0;
    picture_png_chunk(png, "IDAT", 5 + bytes);
    picture_png_bytes(png, block, 5);
    picture_png_image(png, &filter, 1);
    picture_png_image(png, rgb, bytes - 1);
    picture_png_chunk_end(png);
}

SPIRA_API void picture_png_all(picture_png *png, const uint8_t *rgb, int width, int height) {
    const uint8_t kind[5] = {8, 2, 0, 0, 0}; // 8 bits per channel, RGB, no interlacing
    const uint8_t zlib[2] = {0x78, 0x01};    // deflate, no dictionary
    picture_png_bytes(png, "\x89PNG\r\n\x1a\n", 8);
    picture_png_chunk(png, "IHDR", 13);
    picture_png_number(png, (uint32_t)width);
    picture_png_number(png, (uint32_t)height);
    picture_png_bytes(png, kind, 5);
    picture_png_chunk_end(png);
    picture_png_chunk(png, "IDAT", 2);
    picture_png_bytes(png, zlib, 2);
    picture_png_chunk_end(png);
    for (int y = 0; y < height; ++y) {
        picture_png_row(png, rgb + (size_t)y * (size_t)width * 3, width, y + 1 == height);
    }
    picture_png_chunk(png, "IDAT", 4);
    picture_png_number(png, png->adler[1] << 16 | png->adler[0]);
    picture_png_chunk_end(png);
    picture_png_chunk(png, "IEND", 0);
    picture_png_chunk_end(png);
}

// Writes an 8-bit RGB image as an uncompressed PNG. Overwrites an existing file.
//
// inputs:  path; rgb [height, width, 3], top row first
// errors:  status_null_pointer  "path" or "rgb"
//          status_bad_size      "width" or "height": not in 1..21844
//          status_file_open     the file cannot be created or fully written; detail: errno
SPIRA_API spira::status picture_write_png(const char *path, const uint8_t *rgb, int width,
                                          int height) {
    SPIRA_REQUIRE(path, spira::status_null_pointer, "path", 0);
    SPIRA_REQUIRE(rgb, spira::status_null_pointer, "rgb", 0);
    SPIRA_REQUIRE(width > 0 && width <= picture_most_side, spira::status_bad_size, "width", width);
    SPIRA_REQUIRE(height > 0 && height <= picture_most_side, spira::status_bad_size, "height",
                  height);
    FILE *file = fopen(path, "wb");
    SPIRA_REQUIRE(file, spira::status_file_open, path, errno);
    picture_png png;
    picture_png_start(&png, file);
    picture_png_all(&png, rgb, width, height);
    bool closed = fclose(file) == 0;
    SPIRA_REQUIRE(png.good && closed, spira::status_file_open, path, errno);
    return spira::status_success();
}

// ---- from above ---------------------------------------------------------------------------------

// The colour of a class: 20 colours, repeated; grey for a negative class.
//
// outputs: rgb [3]
SPIRA_API void picture_class_colour(int32_t label, uint8_t rgb[3]) {
    const uint8_t palette[picture_colours][3] = {
        {78, 121, 167},  {242, 142, 43},  {89, 161, 79},   {225, 87, 89},   {118, 183, 178},
        {237, 201, 72},  {176, 122, 161}, {255, 157, 167}, {156, 117, 95},  {186, 176, 172},
        {160, 203, 232}, {255, 190, 125}, {140, 209, 125}, {182, 153, 45},  {241, 206, 99},
        {73, 152, 148},  {211, 114, 149}, {250, 191, 210}, {148, 103, 189}, {23, 190, 207},
    };
    const uint8_t grey[3] = {128, 128, 128};
    memcpy(rgb, label < 0 ? grey : palette[label % picture_colours], 3);
}

// The colour of a height from 0 to 1: violet, blue, green, yellow.
SPIRA_API void picture_height_colour(float height, uint8_t rgb[3]) {
    const float stops[4][3] = {{92, 60, 150}, {52, 130, 190}, {70, 190, 120}, {250, 225, 70}};
    int stop = height < 1.0f / 3 ? 0 : height < 2.0f / 3 ? 1 : 2;
    float part = height * 3 - (float)stop;
    for (int c = 0; c < 3; ++c) {
        rgb[c] = (uint8_t)(stops[stop][c] + part * (stops[stop + 1][c] - stops[stop][c]));
    }
}

// The mapping of x and y to pixels: `shrink` voxels per pixel or `zoom` pixels per voxel.
struct picture_view {
    int64_t lo[3], hi[3]; // the smallest and the largest voxel coordinates
    int64_t shrink, zoom; // at least one of the two is 1
    int64_t cells[2];     // the image before zooming
    double dark, bright;  // the range of heights of the colours, without outliers
};

SPIRA_API picture_view picture_view_make(const int32_t *coords, int64_t voxels, int max_side) {
    picture_view view = {};
    for (int axis = 0; axis < 3 && voxels; ++axis) {
        view.lo[axis] = view.hi[axis] = coords[axis];
        for (int64_t i = 1; i < voxels; ++i) {
            view.lo[axis] = spira::min_of(view.lo[axis], coords[i * 3 + axis]);
            view.hi[axis] = spira::max_of(view.hi[axis], coords[i * 3 + axis]);
        }
    }
    int64_t side = spira::max_of(view.hi[0] - view.lo[0], view.hi[1] - view.lo[1]) + 1;
    view.shrink = spira::ceil_div(side, max_side);
    view.zoom = spira::min_of(spira::max_of(max_side / side, 1), picture_most_zoom);
    for (int axis = 0; axis < 2; ++axis) {
        view.cells[axis] = spira::ceil_div(view.hi[axis] - view.lo[axis] + 1, view.shrink);
    }
    return view;
}

// Sets the range of heights of the colours: two deviations around the mean, within all heights.
SPIRA_API void picture_view_heights(picture_view *view, const int32_t *coords, int64_t voxels) {
    double sum = 0, squares = 0;
    for (int64_t i = 0; i < voxels; ++i) {
        double z = (double)(coords[i * 3 + 2] - view->lo[2]);
        sum += z;
        squares += z * z;
    }
    double mean = voxels ? sum / (double)voxels : 0;
    double reach = voxels ? 2 * sqrt(fmax(squares / (double)voxels - mean * mean, 0)) : 0;
    view->dark = fmax(mean - reach, 0);
    view->bright = fmin(mean + reach, (double)(view->hi[2] - view->lo[2]));
}

// Finds the voxel that each cell shows: the highest, of equal heights the one of the lower class,
// so that the order of the voxels does not matter. shown [cells y, cells x]: its index, or -1
SPIRA_API void picture_choose(const picture_view *view, const int32_t *coords,
                              const int32_t *classes, int64_t voxels, int64_t *shown) {
    memset(shown, 0xff, sizeof(int64_t) * (size_t)(view->cells[0] * view->cells[1]));
    for (int64_t i = 0; i < voxels; ++i) {
        int64_t x = (coords[i * 3] - view->lo[0]) / view->shrink;
        int64_t y = (view->hi[1] - coords[i * 3 + 1]) / view->shrink;
        int64_t *best = &shown[y * view->cells[0] + x];
        int32_t z = coords[i * 3 + 2], best_z = *best < 0 ? 0 : coords[*best * 3 + 2];
        if (*best < 0 || z > best_z || (z == best_z && classes && classes[i] < classes[*best])) {
            *best = i;
        }
    }
}

SPIRA_API void picture_colour(const picture_view *view, const int32_t *coords,
                              const int32_t *classes, int64_t voxel, uint8_t rgb[3]) {
    const uint8_t background[3] = {18, 20, 26};
    if (voxel < 0) {
        memcpy(rgb, background, 3);
        return;
    }
    double z = (double)(coords[voxel * 3 + 2] - view->lo[2]);
    double part = view->bright > view->dark ? (z - view->dark) / (view->bright - view->dark) : 1;
    float height = (float)fmin(fmax(part, 0), 1);
    if (!classes) {
        picture_height_colour(height, rgb);
        return;
    }
    picture_class_colour(classes[voxel], rgb);
    for (int c = 0; c < 3; ++c) {
        rgb[c] = (uint8_t)((float)rgb[c] * (0.6f + 0.4f * height));
    }
}

// Draws voxels from above: x to the right, y upwards. A pixel shows its highest voxel; lower voxels
// are darker. The image is as large as `max_side` allows with an integral number of voxels per
// pixel, or of pixels (at most 16) per voxel.
//
// inputs:  coords    [voxels, 3] int32 x, y, z
//          classes   [voxels] the class of each voxel (picture_class_colour); null: colour by
//          height max_side  pixels, up to 21844; 0 or less: 1200
// outputs: out       free it by picture_free. One dark pixel if there are no voxels. Zeroed on
//                    failure. Its previous content is not freed.
// errors:  status_null_pointer  "out" or "coords"
//          status_bad_size      "voxels" or "max_side"
//          status_capacity      no memory; detail: bytes
SPIRA_API spira::status picture_from_above(const int32_t *coords, const int32_t *classes,
                                           int64_t voxels, int max_side, picture *out) {
    SPIRA_REQUIRE(out, spira::status_null_pointer, "out", 0);
    memset(out, 0, sizeof *out);
    SPIRA_REQUIRE(voxels >= 0, spira::status_bad_size, "voxels", voxels);
    SPIRA_REQUIRE(coords || !voxels, spira::status_null_pointer, "coords", 0);
    SPIRA_REQUIRE(max_side <= picture_most_side, spira::status_bad_size, "max_side", max_side);
    picture_view view =
        picture_view_make(coords, voxels, max_side > 0 ? max_side : picture_default_side);
    picture_view_heights(&view, coords, voxels);
    out->width = (int)(view.cells[0] * view.zoom);
    out->height = (int)(view.cells[1] * view.zoom);
    size_t bytes = (size_t)out->width * (size_t)out->height * 3;
    size_t shown_bytes = (size_t)(view.cells[0] * view.cells[1]) * sizeof(int64_t);
    int64_t *shown = (int64_t *)malloc(shown_bytes);
    out->rgb = (uint8_t *)malloc(bytes);
    if (!shown || !out->rgb) {
        free(shown);
        picture_free(out);
        return spira::status_make(spira::status_capacity, "bytes of memory for the picture",
                                  (int64_t)(bytes + shown_bytes));
    }
    picture_choose(&view, coords, classes, voxels, shown);
    for (int64_t y = 0; y < out->height; ++y) {
        for (int64_t x = 0; x < out->width; ++x) {
            int64_t voxel = shown[y / view.zoom * view.cells[0] + x / view.zoom];
            picture_colour(&view, coords, classes, voxel, out->rgb + (y * out->width + x) * 3);
        }
    }
    free(shown);
    return spira::status_success();
}

} // namespace scan

#endif
