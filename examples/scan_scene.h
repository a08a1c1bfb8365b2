// examples/scan_scene.h: generates scans on the host, for use without a file.
//
// scan_scene_street simulates a 64-beam rotating LiDAR in a street; the seed chooses the street.
// scan_scene_random scatters distinct voxels. Both use their own random numbers, so that a seed
// gives the same scan in every run. Another compiler or maths library may round the street
// differently in the last bits.
#ifndef SPIRA_EXAMPLES_SCAN_SCENE_H
#define SPIRA_EXAMPLES_SCAN_SCENE_H

#include "scan_file.h"

#include <math.h>

namespace scan {

// ---- random numbers -----------------------------------------------------------------------------

// The finaliser of SplitMix64: every bit of the result depends on every bit of the argument.
SPIRA_API uint64_t scene_mix(uint64_t bits) {
    bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9ull;
    bits = (bits ^ (bits >> 27)) * 0x94d049bb133111ebull;
    return bits ^ (bits >> 31);
}

struct scene_random {
    uint64_t state;
};

// Each (seed, stream) has a sequence of its own, so that the draws of one beam do not shift those
// of the next.
SPIRA_API scene_random scene_random_make(uint32_t seed, uint32_t stream) {
    scene_random random = {scene_mix((uint64_t)seed << 32 | stream)};
    return random;
}

// Uniform in [lo, hi).
SPIRA_API float scene_uniform(scene_random *random, float lo, float hi) {
    random->state += 0x9e3779b97f4a7c15ull;
    float unit = (float)(scene_mix(random->state) >> 40) * (1.0f / 16777216);
    return lo + (hi - lo) * unit;
}

// An approximately normal number, within 3.5 deviations.
SPIRA_API float scene_normal(scene_random *random, float deviation) {
    float sum = -2;
    for (int i = 0; i < 4; ++i) {
        sum += scene_uniform(random, 0, 1);
    }
    return sum * 1.7320508f * deviation; // four uniform numbers have a variance of 1/3
}

// ---- the street ---------------------------------------------------------------------------------

enum scene_shape { scene_building, scene_box, scene_cylinder, scene_foliage };

// An object. x forward, y left, z up, in metres; the sensor is the origin.
struct scene_solid {
    scene_shape shape;
    float intensity;
    float x, y, z; // the centre
    float half[3]; // half lengths of boxes; else half[0] is the radius, half[2] half the height
    float cosine, sine; // of a box's heading
    float near;         // a lower bound of its horizontal distance
    float bearing;      // its direction, radians
    float spread;       // its half width as an angle, radians
};

enum scene_limits {
    scene_solids_most = 1024,
    scene_beams = 64,
    scene_steps = 2000, // of a revolution, 0.18 degrees each
};

struct scene {
    float crossing; // x of the side street
    int solids;
    scene_solid solid[scene_solids_most]; // the nearest first
};

// Lengths in metres.
#define SPIRA_SCENE_RANGE 80.0f
#define SPIRA_SCENE_SENSOR 1.73f    // height over the road
#define SPIRA_SCENE_KERB 5.5f       // from the middle of the road
#define SPIRA_SCENE_KERB_STEP 0.13f // height of the pavement
#define SPIRA_SCENE_NOISE 0.015f    // deviation of a range
#define SPIRA_SCENE_NONE 1e30f      // the range of a beam that hits nothing
#define SPIRA_SCENE_LOST -1.0f      // the intensity of a beam without a return
#define SPIRA_SCENE_PI 3.14159265358979f
// Slopes: the road along x, its camber, the pavement away from the kerb.
#define SPIRA_SCENE_GRADE 0.008f
#define SPIRA_SCENE_CAMBER 0.02f
#define SPIRA_SCENE_FALL 0.015f

SPIRA_API float scene_ground(float x, float y) {
    float side = fabsf(y), road = SPIRA_SCENE_GRADE * x - SPIRA_SCENE_SENSOR;
    if (side <= SPIRA_SCENE_KERB) {
        return road - SPIRA_SCENE_CAMBER * side;
    }
    return road - SPIRA_SCENE_CAMBER * SPIRA_SCENE_KERB + SPIRA_SCENE_KERB_STEP +
           SPIRA_SCENE_FALL * (side - SPIRA_SCENE_KERB);
}

// Whether an object at x, `half` long to each side, is in the side street.
SPIRA_API bool scene_in_crossing(const scene *street, float x, float half) {
    return fabsf(x - street->crossing) < SPIRA_SCENE_KERB + half;
}

// Adds a solid, sorted by distance. Skips solids that are out of range or at the sensor.
SPIRA_API void scene_add(scene *street, scene_solid solid) {
    bool flat = solid.shape == scene_building || solid.shape == scene_box;
    float reach = flat ? hypotf(solid.half[0], solid.half[1]) : solid.half[0];
    float distance = hypotf(solid.x, solid.y);
    // The circle around a long building may contain the sensor; its front does not.
    solid.near = solid.shape == scene_building ? fabsf(solid.y) - solid.half[1] : distance - reach;
    solid.bearing = atan2f(solid.y, solid.x);
    solid.spread = distance > reach ? asinf(reach / distance) : SPIRA_SCENE_PI;
    if (solid.near < 1.5f || solid.near > SPIRA_SCENE_RANGE ||
        street->solids == scene_solids_most) {
        return;
    }
    int at = street->solids++;
    for (; at > 0 && street->solid[at - 1].near > solid.near; --at) {
        street->solid[at] = street->solid[at - 1];
    }
    street->solid[at] = solid;
}

// A solid with its foot `lift` above the ground at (x, y), and half lengths hx, hy, hz.
SPIRA_API scene_solid scene_solid_make(scene_shape shape, float intensity, float x, float y,
                                       float lift, float hx, float hy, float hz) {
    scene_solid solid = {};
    solid.shape = shape;
    solid.intensity = intensity;
    solid.x = x;
    solid.y = y;
    solid.z = scene_ground(x, y) + lift + hz;
    solid.half[0] = hx;
    solid.half[1] = hy;
    solid.half[2] = hz;
    solid.cosine = 1;
    return solid;
}

SPIRA_API void scene_add_car(scene *street, scene_random *random, float x, float y) {
    float paint = scene_uniform(random, 0.05f, 0.6f), heading = scene_normal(random, 0.02f);
    float length = scene_uniform(random, 1.9f, 2.4f), width = scene_uniform(random, 0.82f, 0.95f);
    bool van = scene_uniform(random, 0, 1) < 0.15f;
    float c = cosf(heading), s = sinf(heading), back = van ? -0.1f : -0.25f;
    float roof = van ? 0.6f : 0.28f, cabin = van ? 0.88f * length : 0.55f * length;
    scene_solid parts[3] = {
        scene_solid_make(scene_box, 0.08f, x, y, 0, 0.75f * length, 0.9f * width, 0.15f), // wheels
        scene_solid_make(scene_box, paint, x, y, 0.25f, length, width, 0.33f),
        scene_solid_make(scene_box, 0.1f, x + back * c, y + back * s, 0.9f, cabin, 0.85f * width,
                         roof),
    };
    for (int i = 0; i < 3; ++i) {
        parts[i].cosine = c;
        parts[i].sine = s;
        scene_add(street, parts[i]);
    }
}

SPIRA_API void scene_add_tree(scene *street, scene_random *random, float x, float y) {
    float trunk = scene_uniform(random, 0.1f, 0.22f);
    scene_add(street, scene_solid_make(scene_cylinder, 0.3f, x, y, 0, trunk, trunk, 1.6f));
    for (int i = 0; i < 3; ++i) {
        float radius = scene_uniform(random, 1.0f, 1.8f), lift = scene_uniform(random, 1.9f, 3.2f);
        float dx = scene_normal(random, 0.6f), dy = scene_normal(random, 0.6f);
        scene_add(street, scene_solid_make(scene_foliage, 0.2f, x + dx, y + dy, lift, radius,
                                           radius, radius));
    }
}

// A row of houses with gaps, and with an opening for the side street.
SPIRA_API void scene_add_houses(scene *street, scene_random *random, float side) {
    for (float x = -90; x < 90;) {
        float width = scene_uniform(random, 9, 18), height = scene_uniform(random, 6, 18);
        float front = scene_uniform(random, 9.2f, 10.6f), wall = scene_uniform(random, 0.2f, 0.55f);
        if (scene_in_crossing(street, x + width / 2, width / 2)) {
            x = street->crossing + SPIRA_SCENE_KERB;
        }
        scene_add(street, scene_solid_make(scene_building, wall, x + width / 2, side * (front + 6),
                                           -1, width / 2, 6, height / 2));
        x += width + (scene_uniform(random, 0, 1) < 0.2f ? scene_uniform(random, 3, 11) : 0);
    }
}

// The objects on one side of the street, at varying spacings.
SPIRA_API void scene_add_side(scene *street, scene_random *random, float side) {
    for (float x = -80; x < 80; x += scene_uniform(random, 5.4f, 6.4f)) {
        if (scene_uniform(random, 0, 1) < 0.7f && !scene_in_crossing(street, x, 2.5f)) {
            scene_add_car(street, random, x, side * scene_uniform(random, 4.2f, 4.5f));
        }
    }
    for (float x = scene_uniform(random, -78, -70); x < 80; x += scene_uniform(random, 8, 12)) {
        if (!scene_in_crossing(street, x, 1.5f)) {
            scene_add_tree(street, random, x, side * scene_uniform(random, 6.2f, 6.6f));
        }
    }
    for (float x = scene_uniform(random, -75, -60); x < 80; x += scene_uniform(random, 22, 28)) {
        scene_add(street,
                  scene_solid_make(scene_cylinder, 0.5f, x, side * 5.9f, 0, 0.07f, 0.07f, 3));
    }
    for (int i = 0; i < 9; ++i) {
        float x = scene_uniform(random, -45, 45), y = side * scene_uniform(random, 6.9f, 8.8f);
        float half = scene_uniform(random, 0.78f, 0.95f);
        scene_add(street, scene_solid_make(scene_cylinder, 0.35f, x, y, 0, 0.24f, 0.24f, half));
    }
    for (float x = -60; x < 60; x += scene_uniform(random, 1, 14)) { // shrubs
        if (scene_in_crossing(street, x, 0.6f)) {
            continue;
        }
        float radius = scene_uniform(random, 0.35f, 0.6f);
        scene_add(street, scene_solid_make(scene_foliage, 0.25f, x, side * 8.7f, -0.2f, radius,
                                           radius, radius));
    }
}

SPIRA_API void scene_make(scene *street, uint32_t seed) {
    scene_random random = scene_random_make(seed, 0xffffffffu); // not the stream of any beam
    street->solids = 0;
    street->crossing = scene_uniform(&random, 14, 32);
    street->crossing *= scene_uniform(&random, 0, 1) < 0.5f ? -1.0f : 1.0f;
    for (int i = 0; i < 2; ++i) {
        float side = i ? -1.0f : 1.0f;
        scene_add_houses(street, &random, side);
        scene_add_side(street, &random, side);
        for (float x = scene_uniform(&random, 9, 20); x < 80; x += scene_uniform(&random, 12, 40)) {
            scene_add_car(street, &random, side * x, side * 1.8f); // in the traffic
        }
    }
}

// ---- beams --------------------------------------------------------------------------------------

// The return of a beam. range: SPIRA_SCENE_NONE if it hits nothing
struct scene_hit {
    float range;
    float intensity;
};

// The road and the pavements. A beam starts above the middle of the road and stays on its side, so
// each surface is one plane.
SPIRA_API scene_hit scene_hit_ground(const float d[3]) {
    float side = fabsf(d[1]), along = d[2] - SPIRA_SCENE_GRADE * d[0];
    scene_hit hit = {SPIRA_SCENE_NONE, 0.25f};
    float fall = along + SPIRA_SCENE_CAMBER * side; // of the beam towards the road, per metre
    float road = fall < 0 ? -SPIRA_SCENE_SENSOR / fall : SPIRA_SCENE_NONE;
    if (road * side <= SPIRA_SCENE_KERB) {
        hit.range = road;
        return hit;
    }
    float kerb = SPIRA_SCENE_KERB / side;
    float step = SPIRA_SCENE_KERB_STEP - SPIRA_SCENE_CAMBER * SPIRA_SCENE_KERB - SPIRA_SCENE_SENSOR;
    hit.intensity = 0.4f;
    if (kerb * along < step) {
        hit.range = kerb; // below the edge of the pavement: the face of the kerb
        return hit;
    }
    fall = along - SPIRA_SCENE_FALL * side;
    hit.range = fall < 0 ? (step - SPIRA_SCENE_FALL * SPIRA_SCENE_KERB) / fall : SPIRA_SCENE_NONE;
    return hit;
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
    float u = range * d[0] - wall->x + wall->half[0];
    float v = range * d[2] - wall->z + wall->half[2] - 1; // houses reach 1 m into the ground
    float s = fmodf(u, pitch[0]) - pitch[0] / 2, t = v - pitch[1] * floorf(v / pitch[1]) - 1.75f;
    bool inside =
        u < pitch[0] * floorf(2 * wall->half[0] / pitch[0]); // no window is cut by the edge
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
    int axis = 0;
    scene_hit hit = {SPIRA_SCENE_NONE, box->intensity};
    if (!scene_slabs(from, local, box->half, &enter, &leave, &axis) || enter <= 0) {
        return hit;
    }
    hit.range = enter;
    if (box->shape == scene_building && axis == 1) {
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
    float radius = solid->half[0];
    float root = b * b - a * (solid->x * solid->x + solid->y * solid->y - radius * radius);
    scene_hit hit = {SPIRA_SCENE_NONE, solid->intensity};
    float range = root > 0 ? (b - sqrtf(root)) / a : -1;
    if (range > 0 && fabsf(range * d[2] - solid->z) < solid->half[2]) {
        hit.range = range;
    }
    return hit;
}

// Leaves stop a beam inside the crown, after 0.7 m on average, or let it through.
SPIRA_API scene_hit scene_hit_foliage(const scene_solid *solid, const float d[3],
                                      scene_random *random) {
    float b = d[0] * solid->x + d[1] * solid->y + d[2] * solid->z, radius = solid->half[0];
    float square = solid->x * solid->x + solid->y * solid->y + solid->z * solid->z;
    float root = b * b - square + radius * radius;
    scene_hit hit = {SPIRA_SCENE_NONE, solid->intensity};
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

// Returns the closest hit of the ground and of the solids `seen` [count], sorted by distance.
SPIRA_API scene_hit scene_cast(const scene *street, const int *seen, int count, const float d[3],
                               scene_random *random) {
    scene_hit best = scene_hit_ground(d);
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

// Casts all beams of one step. Returns the number of points written to `point` [64, 4].
SPIRA_API int scene_sweep(const scene *street, uint32_t seed, int step, float *point) {
    int seen[scene_solids_most], points = 0;
    float azimuth = ((float)step / scene_steps * 2 - 1) * SPIRA_SCENE_PI;
    int count = scene_seen(street, azimuth, seen);
    for (int beam = 0; beam < scene_beams; ++beam) {
        scene_random random = scene_random_make(seed, (uint32_t)(step * scene_beams + beam));
        float elevation = scene_elevation(beam), level = cosf(elevation);
        float d[3] = {level * cosf(azimuth), level * sinf(azimuth), sinf(elevation)};
        scene_hit hit = scene_cast(street, seen, count, d, &random);
        bool lost = scene_uniform(&random, 0, 1) < 0.01f || hit.intensity == SPIRA_SCENE_LOST;
        if (hit.range >= SPIRA_SCENE_RANGE || lost) {
            continue;
        }
        float range = hit.range + scene_normal(&random, SPIRA_SCENE_NOISE);
        for (int axis = 0; axis < 3; ++axis) {
            point[points * 4 + axis] = range * d[axis];
        }
        float intensity = hit.intensity + scene_normal(&random, 0.04f);
        point[points * 4 + 3] = fminf(fmaxf(intensity, 0), 1);
        ++points;
    }
    return points;
}

// Generates a scan of a street by a 64-beam rotating LiDAR 1.73 m above the road: a sloping road
// with kerbs, fronts with windows, cars, trees, poles, pedestrians. The noise is 1.5 cm, the range
// 80 m. A scan has about 123 000 points in 80 000 to 90 000 voxels of 5 cm. It takes about 10 ms on
// one core.
//
// inputs:  seed  chooses the street
// outputs: out   points [rows, 4]: x (along the street), y (left), z (up) in metres from the sensor,
//                intensity 0..1, as in KITTI; sorted by azimuth. Free it by scan_free. Zeroed on
//                failure. Its previous content is not freed.
// errors:  status_null_pointer  "out"
//          status_capacity      no memory; detail: bytes
SPIRA_API spira::status scan_scene_street(uint32_t seed, scan_cloud *out) {
    SPIRA_REQUIRE(out, spira::status_null_pointer, "out", 0);
    memset(out, 0, sizeof *out);
    size_t bytes = sizeof(float) * 4 * scene_beams * scene_steps;
    scene *street = (scene *)malloc(sizeof *street);
    float *points = (float *)malloc(bytes);
    if (!street || !points) {
        free(street);
        free(points);
        return spira::status_make(spira::status_capacity, "bytes of memory for the scene",
                                  (int64_t)(bytes + sizeof *street));
    }
    scene_make(street, seed);
    out->points = points;
    out->columns = 4;
    for (int step = 0; step < scene_steps; ++step) {
        out->rows += scene_sweep(street, seed, step, points + out->rows * 4);
    }
    free(street);
    return spira::status_success();
}

// ---- random voxels ------------------------------------------------------------------------------

// A Feistel network: a permutation of 0 .. 4^bits - 1 that needs no memory.
SPIRA_API uint64_t scene_shuffle(uint64_t index, int bits, uint32_t seed) {
    uint64_t mask = ((uint64_t)1 << bits) - 1, left = index >> bits, right = index & mask;
    for (uint64_t round = 0; round < 6; ++round) {
        uint64_t key = (uint64_t)seed << 32 | round << 28;
        uint64_t next = left ^ (scene_mix(scene_mix(key) ^ right) & mask);
        left = right;
        right = next;
    }
    return left << bits | right;
}

// Scatters distinct voxels uniformly over the box 0 .. extent - 1, in random order: the first
// voxels of a random permutation of the box. Needs no memory; the time is proportional to the
// voxels.
//
// inputs:  seed; voxels  their number; extent [3] x, y, z, each 1 or more, their product up to 2^62
// outputs: out  [voxels, 3] int32 x, y, z, distinct
// errors:  status_null_pointer  "extent" or "out"
//          status_bad_size      "voxels": negative; "extent": not as above
//          status_capacity      "extent": fewer cells than voxels; detail: voxels
SPIRA_API spira::status scan_scene_random(uint32_t seed, int64_t voxels, const int extent[3],
                                          int32_t *out) {
    SPIRA_REQUIRE(extent, spira::status_null_pointer, "extent", 0);
    SPIRA_REQUIRE(voxels >= 0, spira::status_bad_size, "voxels", voxels);
    SPIRA_REQUIRE(out || !voxels, spira::status_null_pointer, "out", 0);
    int64_t volume = 1;
    for (int axis = 0; axis < 3; ++axis) {
        SPIRA_REQUIRE(extent[axis] > 0 && volume <= ((int64_t)1 << 62) / extent[axis],
                      spira::status_bad_size, "extent", extent[axis]);
        volume *= extent[axis];
    }
    SPIRA_REQUIRE(voxels <= volume, spira::status_capacity, "extent", voxels);
    int bits = 1;
    while (bits < 31 && (int64_t)1 << (2 * bits) < volume) {
        ++bits;
    }
    for (int64_t i = 0; i < voxels; ++i) {
        uint64_t cell = (uint64_t)i;
        do { // follow the permutation until the cell is inside the box
            cell = scene_shuffle(cell, bits, seed);
        } while (cell >= (uint64_t)volume);
        out[i * 3 + 2] = (int32_t)(cell % (uint64_t)extent[2]);
        out[i * 3 + 1] = (int32_t)(cell / (uint64_t)extent[2] % (uint64_t)extent[1]);
        out[i * 3] = (int32_t)(cell / (uint64_t)extent[2] / (uint64_t)extent[1]);
    }
    return spira::status_success();
}

} // namespace scan

#endif
