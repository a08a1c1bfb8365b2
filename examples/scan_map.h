// examples/scan_map.h: draws a dense bird's-eye map into a picture: for each cell its strongest
// channel as a colour, and the points of the scan over it.
#ifndef SPIRA_EXAMPLES_SCAN_MAP_H
#define SPIRA_EXAMPLES_SCAN_MAP_H

#include "scan_picture.h"

namespace scan {

// A map of one batch, [channels, height, width].
struct picture_map {
    const float *values;
    int channels, height, width;
};

// The largest value of a cell over the channels.
SPIRA_API float picture_map_peak(const picture_map *map, int64_t cell) {
    const int64_t cells = (int64_t)map->height * map->width;
    float peak = map->values[cell];
    for (int c = 1; c < map->channels; ++c) {
        peak = fmaxf(peak, map->values[c * cells + cell]);
    }
    return peak;
}

// Draws a map: x to the right, y upwards, `zoom` pixels a cell. Cells with no positive value are
// dark; the others are coloured from the smallest to the largest value.
//
// inputs:  map; zoom  1 to 16
// outputs: out        free it by picture_free
// errors:  status_capacity  no memory; detail: bytes
SPIRA_API spira::status picture_map_draw(const picture_map *map, int zoom, picture *out) {
    const uint8_t background[3] = {18, 20, 26};
    const int64_t cells = (int64_t)map->height * map->width;
    float *peak = (float *)malloc((size_t)cells * sizeof(float));
    out->width = map->width * zoom;
    out->height = map->height * zoom;
    out->rgb = (uint8_t *)malloc((size_t)out->width * (size_t)out->height * 3);
    if (!peak || !out->rgb) {
        free(peak);
        picture_free(out);
        return spira::status_make(spira::status_capacity, "bytes of memory for the picture", cells);
    }
    float least = INFINITY, most = 0;
    for (int64_t i = 0; i < cells; ++i) {
        peak[i] = picture_map_peak(map, i);
        least = peak[i] > 0 ? fminf(least, peak[i]) : least;
        most = fmaxf(most, peak[i]);
    }
    for (int64_t y = 0; y < out->height; ++y) {
        for (int64_t x = 0; x < out->width; ++x) {
            const float value = peak[(map->height - 1 - y / zoom) * map->width + x / zoom];
            uint8_t *rgb = out->rgb + (y * out->width + x) * 3;
            memcpy(rgb, background, 3);
            if (value > 0) {
                picture_height_colour(most > least ? (value - least) / (most - least) : 1, rgb);
            }
        }
    }
    free(peak);
    return spira::status_success();
}

// Marks a point of the map, in cells from its lower left corner. Points outside are left out.
SPIRA_API void picture_map_point(picture *image, float x, float y, int zoom) {
    const float column = x * (float)zoom, row = (float)image->height - y * (float)zoom;
    if (column >= 0 && row >= 0 && column < (float)image->width && row < (float)image->height) {
        uint8_t *rgb = image->rgb + ((int64_t)row * image->width + (int64_t)column) * 3;
        for (int c = 0; c < 3; ++c) {
            rgb[c] = (uint8_t)((rgb[c] + 255) / 2); // points that coincide get brighter
        }
    }
}

} // namespace scan

#endif
