// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// examples/scene_cast.h: a rotating LiDAR with 64 beams, cast into a street.
#ifndef SPIRA_EXAMPLES_SCENE_CAST_H
#define SPIRA_EXAMPLES_SCENE_CAST_H

#include "scene_street.h"

namespace scan {

enum scene_sensor {
    scene_beams = 64,
    scene_steps = 2000, // of a revolution, 0.18 degrees each
};

#define SPIRA_SCENE_NOISE 0.015f // deviation of a range, metres
#define SPIRA_SCENE_NONE 1e30f   // the range of a beam that hits nothing
#define SPIRA_SCENE_LOST -1.0f   // the intensity of a beam without a return

// The return of a beam. range: SPIRA_SCENE_NONE if it hits nothing
struct scene_hit {
    float range;
    float intensity;
    scene_class label;
};

// ---- surfaces -----------------------------------------------------------------------------------

// What a beam finds beside the road (`aside`) or on it. The side street has the height of the
// pavement, and is a road.
SPIRA_API scene_hit scene_hit_level(const scene *street, const float d[3], float range,
                                    bool aside) {
    const bool walk = aside && !scene_in_crossing(street, range * d[0], 0);
    return {range, walk ? street->walk_intensity : street->road_intensity,
            walk ? scene_class_pavement : scene_class_road};
}

// One half of the ground: the road, the kerb and the pavement on one side of the middle. Each is a
// plane.
SPIRA_API void scene_hit_side(const scene *street, const float d[3], float side, scene_hit *best) {
    const float out = side * d[1], middle = side * street->middle; // away from the middle
    const float along = d[2] - street->grade * d[0], crown = scene_crown(street);
    const float edge = crown - street->camber * street->road; // height of the road at the kerb
    const float kerb = (middle + street->road) / out;         // range of the kerb's plane
    if (out > 0 && kerb < best->range && kerb * along > edge &&
        kerb * along < edge + street->step) {
        *best = scene_hit_level(street, d, kerb, true);
    }
    const float slope[2] = {-street->camber, street->fall};
    const float level[2] = {crown, edge + street->step - street->fall * street->road};
    for (int i = 0; i < 2; ++i) { // road, pavement: height = level + slope * distance from middle
        const float range = (level[i] - slope[i] * middle) / (along - slope[i] * out);
        const float across = range * out - middle;
        const bool within = i ? across > street->road : across >= 0 && across <= street->road;
        if (range > 0 && within && range < best->range) {
            *best = scene_hit_level(street, d, range, i == 1);
        }
    }
}

SPIRA_API scene_hit scene_hit_ground(const scene *street, const float d[3]) {
    scene_hit best = {SPIRA_SCENE_NONE, 0, scene_class_road};
    scene_hit_side(street, d, 1, &best);
    scene_hit_side(street, d, -1, &best);
    return best;
}

// Finds where a beam enters and leaves a box around the origin (the slab test). Returns false if it
// misses the box. axis: of the face through which it enters
SPIRA_API bool scene_slabs(const float from[3], const float d[3], const float half[3], float *enter,
                           float *leave, int *axis) {
    *enter = -SPIRA_SCENE_NONE;
    *leave = SPIRA_SCENE_NONE;
    for (int a = 0; a < 3; ++a) {
        float inverse = 1 / (fabsf(d[a]) > 1e-9f ? d[a] : 1e-9f);
        float middle = -from[a] * inverse, reach = half[a] * fabsf(inverse);
        if (middle - reach > *enter) {
            *enter = middle - reach;
            *axis = a;
        }
        *leave = fminf(*leave, middle + reach);
    }
    return *enter<*leave && * leave> 0;
}

// A front has windows: recesses on a grid. Returns the range of a beam that reaches the wall's face
// at `range`.
SPIRA_API float scene_window(const scene_solid *wall, const float d[3], float range, bool *glass) {
    const float pitch[2] = {2.6f, 3.1f}, half[3] = {0.65f, 0.22f, 0.75f}; // y: depth of the recess
    float u = range * d[0] - wall->x + wall->half.x;
    float v = range * d[2] - wall->z + wall->half.z - 1; // houses reach 1 m into the ground
    float s = fmodf(u, pitch[0]) - pitch[0] / 2, t = v - pitch[1] * floorf(v / pitch[1]) - 1.75f;
    bool inside =
        u < pitch[0] * floorf(2 * wall->half.x / pitch[0]); // no window is cut by the edge
    if (!inside || fabsf(s) >= half[0] || fabsf(t) >= half[2]) {
        *glass = false;
        return range;
    }
    float enter, leave,
        from[3] = {s, 0, t}; // the wall's face is the middle plane of the recess's box
    int axis = 0;
    scene_slabs(from, d, half, &enter, &leave, &axis);
    *glass = leave * fabsf(d[1]) > 0.99f * half[1]; // else the beam hits the reveal
    return range + leave;
}

SPIRA_API scene_hit scene_hit_box(const scene_solid *box, const float d[3], scene_random *random) {
    float c = box->cosine, s = box->sine, enter, leave;
    float from[3] = {-c * box->x - s * box->y, s * box->x - c * box->y, -box->z};
    float local[3] = {c * d[0] + s * d[1], c * d[1] - s * d[0], d[2]};
    const float half[3] = {box->half.x, box->half.y, box->half.z};
    int axis = 0;
    scene_hit hit = {SPIRA_SCENE_NONE, box->intensity, box->label};
    if (!scene_slabs(from, local, half, &enter, &leave, &axis) || enter <= 0) {
        return hit;
    }
    hit.range = enter;
    if (box->shape == scene_front && axis == 1) {
        bool glass;
        hit.range = scene_window(box, d, enter, &glass);
        if (glass) {
            bool lost = scene_uniform(random, 0, 1) < 0.35f; // reflected away
            hit.intensity = lost ? SPIRA_SCENE_LOST : 0.06f;
        }
    }
    return hit;
}

SPIRA_API scene_hit scene_hit_cylinder(const scene_solid *solid, const float d[3]) {
    float a = d[0] * d[0] + d[1] * d[1], b = d[0] * solid->x + d[1] * solid->y;
    float radius = solid->half.x;
    float root = b * b - a * (solid->x * solid->x + solid->y * solid->y - radius * radius);
    scene_hit hit = {SPIRA_SCENE_NONE, solid->intensity, solid->label};
    float range = root > 0 ? (b - sqrtf(root)) / a : -1;
    if (range > 0 && fabsf(range * d[2] - solid->z) < solid->half.z) {
        hit.range = range;
    }
    return hit;
}

// Leaves stop a beam inside the crown, after 0.7 m on average, or let it through.
SPIRA_API scene_hit scene_hit_foliage(const scene_solid *solid, const float d[3],
                                      scene_random *random) {
    float b = d[0] * solid->x + d[1] * solid->y + d[2] * solid->z, radius = solid->half.x;
    float square = solid->x * solid->x + solid->y * solid->y + solid->z * solid->z;
    float root = b * b - square + radius * radius;
    scene_hit hit = {SPIRA_SCENE_NONE, solid->intensity, solid->label};
    if (root > 0 && b > 0) {
        float half = sqrtf(root);
        float deep = -0.7f * logf(1 - scene_uniform(random, 0, 1));
        hit.range = deep < 2 * half ? b - half + deep : SPIRA_SCENE_NONE;
    }
    return hit;
}

SPIRA_API scene_hit scene_hit_solid(const scene_solid *solid, const float d[3],
                                    scene_random *random) {
    switch (solid->shape) {
    case scene_cylinder:
        return scene_hit_cylinder(solid, d);
    case scene_foliage:
        return scene_hit_foliage(solid, d, random);
    default:
        return scene_hit_box(solid, d, random);
    }
}

// ---- beams --------------------------------------------------------------------------------------

// Returns the closest hit of the ground and of the solids `seen` [count], sorted by distance.
SPIRA_API scene_hit scene_cast(const scene *street, const int *seen, int count, const float d[3],
                               scene_random *random) {
    scene_hit best = scene_hit_ground(street, d);
    float level = hypotf(d[0], d[1]);
    for (int i = 0; i < count; ++i) {
        const scene_solid *solid = &street->solid[seen[i]];
        if (solid->near > best.range * level) {
            break;
        }
        scene_hit hit = scene_hit_solid(solid, d, random);
        best = hit.range < best.range ? hit : best;
    }
    return best;
}

// Finds the solids that can be hit at an azimuth, sorted by distance. Returns their number.
SPIRA_API int scene_seen(const scene *street, float azimuth, int *seen) {
    int count = 0;
    for (int i = 0; i < street->solids; ++i) {
        float turn = fabsf(azimuth - street->solid[i].bearing);
        turn = turn > SPIRA_SCENE_PI ? 2 * SPIRA_SCENE_PI - turn : turn;
        if (turn <= street->solid[i].spread + 1e-4f) {
            seen[count++] = i;
        }
    }
    return count;
}

// The HDL-64 has two groups of 32 beams: 2 to -8.33 degrees in steps of 1/3, -8.83 to -24.8 degrees
// in steps of about 1/2.
SPIRA_API float scene_elevation(int beam) {
    float degrees = beam < 32 ? 2 - (float)beam / 3 : -8.83f - (float)(beam - 32) * (15.97f / 31);
    return degrees * (SPIRA_SCENE_PI / 180);
}

// Casts all beams of one step. Returns the number of points.
//
// outputs: point  [64, 4] x, y, z as the sensor sees them, intensity; label  [64]
SPIRA_API int scene_sweep(const scene *street, uint32_t seed, int step, float *point,
                          int32_t *label) {
    int seen[scene_solids_most], points = 0;
    const float azimuth = ((float)step / (float)scene_steps * 2 - 1) * SPIRA_SCENE_PI;
    const float heading = azimuth + street->yaw; // in the street
    const int count = scene_seen(street, heading, seen);
    for (int beam = 0; beam < scene_beams; ++beam) {
        scene_random random = scene_random_make(seed, (uint32_t)(step * scene_beams + beam));
        const float elevation = scene_elevation(beam), level = cosf(elevation);
        const float d[3] = {level * cosf(heading), level * sinf(heading), sinf(elevation)};
        const scene_hit hit = scene_cast(street, seen, count, d, &random);
        const bool lost = scene_uniform(&random, 0, 1) < 0.01f;
        if (hit.range >= SPIRA_SCENE_RANGE || lost || hit.intensity == SPIRA_SCENE_LOST) {
            continue;
        }
        const float range = hit.range + scene_normal(&random, SPIRA_SCENE_NOISE);
        const float intensity = hit.intensity + scene_normal(&random, 0.04f);
        float *p = point + points * 4;
        p[0] = range * level * cosf(azimuth);
        p[1] = range * level * sinf(azimuth);
        p[2] = range * d[2];
        p[3] = fminf(fmaxf(intensity, 0), 1);
        label[points++] = hit.label;
    }
    return points;
}

} // namespace scan

#endif
