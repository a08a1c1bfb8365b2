// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// examples/scan_picture.h: draws points and squares into an image, on the host.
//
//   scan::picture image;
//   const scan::picture_view view = {0.5f, 0.9f, 2, false};
//   SPIRA_TRY(scan::picture_draw(&view, marks, count, &image));
//   spira::status s = scan::png_write("scan.png", image.rgb, image.width, image.height);
//   scan::picture_free(&image);
#ifndef SPIRA_EXAMPLES_SCAN_PICTURE_H
#define SPIRA_EXAMPLES_SCAN_PICTURE_H

#include "../spira/base/integer.h"
#include "../spira/status.h"

#include <algorithm>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

namespace scan {

enum picture_limits {
    picture_width = 1200, // of the marks, pixels
    picture_height = 720,
    picture_least = 840,  // width of the caption
    picture_caption = 92, // its height: three rows
    picture_colours = 20,
};

// An image. All zero is the empty image, which owns no memory.
struct picture {
    int width, height;
    float scale;  // pixels per metre
    uint8_t *rgb; // [height, width, 3], top row first
};

// Frees the memory of a picture and zeroes it. A null pointer or a second call does nothing.
SPIRA_API void picture_free(picture *image) {
    if (image) {
        free(image->rgb);
        memset(image, 0, sizeof *image);
    }
}

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

// A point, or a square of a voxel or a cell of a map.
struct picture_mark {
    float at[3]; // the centre, metres
    float edge;  // of the square; 0: a point
    uint8_t rgb[3];
};

// Where marks are seen from.
struct picture_view {
    float heading; // turns them around z, radians
    float tilt;    // of the direction from above, radians. Squares need 0, and a heading of 0
    int dot;       // edge of a point, pixels
    bool whole;    // the outermost marks are drawn, too
};

// The range of values without the lowest and the highest half per cent. The values change places.
SPIRA_API void picture_range(float *values, int64_t count, float range[2]) {
    range[0] = range[1] = 0;
    for (int i = 0; i < 2 && count; ++i) {
        float *at = values + (i ? count - 1 - count / 200 : count / 200);
        std::nth_element(values, at, values + count);
        range[i] = *at;
    }
}

// Replaces values by their place in that range, from 0 to 1.
//
// scratch: sorted  [count]
SPIRA_API void picture_normalise(float *values, int64_t count, float *sorted) {
    float range[2];
    memcpy(sorted, values, (size_t)count * sizeof(float));
    picture_range(sorted, count, range);
    for (int64_t i = 0; i < count; ++i) {
        const float part = (values[i] - range[0]) / fmaxf(range[1] - range[0], 1e-9f);
        values[i] = fminf(fmaxf(part, 0), 1);
    }
}

// Darkens a colour: 0 is the lowest height, 1 the highest.
SPIRA_API void picture_shade(float height, uint8_t rgb[3]) {
    const float light = 0.55f + 0.6f * height;
    for (int c = 0; c < 3; ++c) {
        rgb[c] = (uint8_t)fminf(light * (float)rgb[c], 255);
    }
}

// Where a mark is seen: to the right, upwards, towards the viewer; metres.
SPIRA_API void picture_project(const picture_view *view, const float at[3], float seen[3]) {
    const float c = cosf(view->heading), s = sinf(view->heading);
    const float across = s * at[0] + c * at[1];
    seen[0] = c * at[0] - s * at[1];
    seen[1] = cosf(view->tilt) * across + sinf(view->tilt) * at[2];
    seen[2] = cosf(view->tilt) * at[2] - sinf(view->tilt) * across;
}

// Fills the square of a mark where nothing is nearer. depth [height, width]
SPIRA_API void picture_fill(const picture_mark *mark, const float pixel[2], float nearness, int dot,
                            picture *image, float *depth) {
    const float half = 0.5f * fmaxf((float)dot, mark->edge * image->scale + 0.04f); // no gaps
    int first[2], end[2]; // neighbours have the same edge
    for (int a = 0; a < 2; ++a) {
        const float most = (float)(a ? image->height - picture_caption : image->width);
        first[a] = (int)fminf(fmaxf(floorf(pixel[a] - half), 0), most);
        end[a] = (int)fminf(fmaxf(floorf(pixel[a] + half), 0), most);
    }
    for (int y = first[1]; y < end[1]; ++y) {
        for (int x = first[0]; x < end[0]; ++x) {
            const int64_t at = (int64_t)y * image->width + x;
            if (nearness > depth[at]) {
                depth[at] = nearness;
                memcpy(image->rgb + 3 * at, mark->rgb, 3);
            }
        }
    }
}

// Draws marks, without the outermost half per cent on each side (unless `whole`), over a band that
// is free for a caption. x is to the right and y upwards, turned and tilted as the view says.
//
// outputs: out  free it by picture_free. Zeroed on failure. Its previous content is not freed.
// errors:  status_workspace  no memory; detail: bytes
SPIRA_API spira::status picture_draw(const picture_view *view, const picture_mark *marks,
                                     int64_t count, picture *out) {
    memset(out, 0, sizeof *out);
    float range[2][2], seen[3], edge = 0;
    float *values = (float *)malloc((size_t)(count + 1) * sizeof(float));
    for (int axis = 0; axis < 2 && values; ++axis) {
        for (int64_t i = 0; i < count; ++i) {
            picture_project(view, marks[i].at, seen);
            values[i] = seen[axis];
            edge = fmaxf(edge, marks[i].edge);
        }
        if (view->whole && count) {
            range[axis][0] = *std::min_element(values, values + count);
            range[axis][1] = *std::max_element(values, values + count);
        } else {
            picture_range(values, count, range[axis]);
        }
    }
    const bool measured = values != nullptr;
    free(values);
    const float margin = 0.5f + 0.5f * edge; // metres
    const float wide = range[0][1] - range[0][0] + 2 * margin;
    const float high = range[1][1] - range[1][0] + 2 * margin;
    out->scale = fminf(picture_width / wide, picture_height / high);
    out->width = spira::max_of((int)(out->scale * wide), picture_least);
    out->height = (int)(out->scale * high) + 1 + picture_caption;
    const size_t pixels = (size_t)out->width * (size_t)out->height;
    float *depth = (float *)malloc(pixels * sizeof(float));
    out->rgb = (uint8_t *)malloc(pixels * 3);
    if (!measured || !depth || !out->rgb) {
        free(depth);
        picture_free(out);
        return spira::status_make(spira::status_workspace, "bytes of memory for the picture",
                                  (int64_t)(pixels * 7));
    }
    const uint8_t background[3] = {18, 20, 26};
    for (size_t i = 0; i < pixels; ++i) {
        depth[i] = -INFINITY;
        memcpy(out->rgb + 3 * i, background, 3);
    }
    const float left = 0.5f * ((float)out->width - out->scale * wide);
    for (int64_t i = 0; i < count; ++i) {
        picture_project(view, marks[i].at, seen);
        const float pixel[2] = {left + out->scale * (seen[0] - range[0][0] + margin),
                                out->scale * (range[1][1] + margin - seen[1])};
        picture_fill(&marks[i], pixel, seen[2], view->dot, out, depth);
    }
    free(depth);
    return spira::status_success();
}

} // namespace scan

#endif
