// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// examples/scene_street.h: the streets that scan_scene.h scans: road, pavements, houses, vehicles,
// poles, plants and people, each with its class.
//
// A street runs along x. Its seed chooses the widths, the slope, how densely each side is built,
// planted and parked, and where the sensor drives. The sensor is the origin.
#ifndef SPIRA_EXAMPLES_SCENE_STREET_H
#define SPIRA_EXAMPLES_SCENE_STREET_H

#include "scene_random.h"

#include <math.h>

namespace scan {

enum scene_class {
    scene_class_road,
    scene_class_pavement, // and kerbs
    scene_class_building,
    scene_class_vehicle,
    scene_class_pole,  // of lamps and signs
    scene_class_plant, // trees, with their trunks, and shrubs
    scene_class_person,
    scene_classes,
};

SPIRA_API const char *scene_class_name(int label) {
    static const char *const names[scene_classes] = {"road", "pavement", "building", "vehicle",
                                                     "pole", "plant",    "person"};
    return label >= 0 && label < scene_classes ? names[label] : "none";
}

enum scene_shape { scene_front, scene_box, scene_cylinder, scene_foliage };

struct scene_size {
    float x, y, z;
};

// An object. x forward, y left, z up, in metres.
struct scene_solid {
    scene_shape shape;
    scene_class label;
    float intensity;
    float x, y, z;      // the centre
    scene_size half;    // half lengths of boxes; else x is the radius, z half the height
    float cosine, sine; // of a box's heading
    float near;         // a lower bound of its horizontal distance
    float bearing;      // its direction, radians
    float spread;       // its half width as an angle, radians
};

enum scene_limits { scene_solids_most = 1024 };

// Lengths in metres; slopes in metres per metre.
struct scene {
    float height;   // of the sensor over the road
    float yaw;      // of the sensor, radians
    float middle;   // y of the middle of the road
    float road;     // half width of the road
    float walk;     // width of the pavements
    float grade;    // slope of the street along x
    float camber;   // slope of the road away from its middle
    float step;     // height of the kerbs
    float fall;     // slope of the pavements away from the road
    float crossing; // x of the side street
    float road_intensity;
    float walk_intensity;
    int solids;
    scene_solid solid[scene_solids_most]; // the nearest first
};

#define SPIRA_SCENE_RANGE 80.0f // of the sensor, and the reach of a street along x, metres
#define SPIRA_SCENE_PI 3.14159265358979f

// The height of the road's middle at x = 0, as the sensor sees it.
SPIRA_API float scene_crown(const scene *street) {
    return street->camber * fabsf(street->middle) - street->height;
}

// The height of the ground.
SPIRA_API float scene_ground(const scene *street, float x, float y) {
    const float side = fabsf(y - street->middle), off = side - street->road;
    const float road = scene_crown(street) + street->grade * x;
    return off <= 0 ? road - street->camber * side
                    : road - street->camber * street->road + street->step + street->fall * off;
}

// Whether an object at x, `half` long to each side, is in the side street.
SPIRA_API bool scene_in_crossing(const scene *street, float x, float half) {
    return fabsf(x - street->crossing) < street->road + half;
}

// ---- objects ------------------------------------------------------------------------------------

SPIRA_API scene_solid scene_solid_make(scene_shape shape, scene_class label, float intensity,
                                       scene_size half) {
    scene_solid solid = {};
    solid.shape = shape;
    solid.label = label;
    solid.intensity = intensity;
    solid.half = half;
    solid.cosine = 1;
    return solid;
}

// Adds a solid with its foot `lift` above the ground at (x, y), sorted by distance. Skips solids
// that are out of range or at the sensor.
SPIRA_API void scene_add(scene *street, scene_solid solid, float x, float y, float lift) {
    const bool flat = solid.shape == scene_front || solid.shape == scene_box;
    const float reach = flat ? hypotf(solid.half.x, solid.half.y) : solid.half.x;
    const float distance = hypotf(x, y);
    solid.x = x;
    solid.y = y;
    solid.z = scene_ground(street, x, y) + lift + solid.half.z;
    // The circle around a long building may contain the sensor; its front does not.
    solid.near = solid.shape == scene_front ? fabsf(y) - solid.half.y : distance - reach;
    solid.bearing = atan2f(y, x);
    solid.spread = distance > reach ? asinf(reach / distance) : SPIRA_SCENE_PI;
    if (solid.near < 1 || solid.near > SPIRA_SCENE_RANGE || street->solids == scene_solids_most) {
        return;
    }
    int at = street->solids++;
    for (; at > 0 && street->solid[at - 1].near > solid.near; --at) {
        street->solid[at] = street->solid[at - 1];
    }
    street->solid[at] = solid;
}

// A car, a van or a lorry: three boxes for wheels, body and cabin.
SPIRA_API void scene_add_vehicle(scene *street, scene_random *random, float x, float y) {
    const float kind = scene_uniform(random, 0, 1), paint = scene_uniform(random, 0.05f, 0.6f);
    const bool lorry = kind < 0.06f, van = kind < 0.2f;
    const float heading = scene_normal(random, 0.02f), c = cosf(heading), s = sinf(heading);
    const float length =
        lorry ? scene_uniform(random, 2.8f, 4.2f) : scene_uniform(random, 1.8f, 2.4f);
    const float width = scene_uniform(random, 0.82f, 0.95f) + (lorry ? 0.25f : 0.0f);
    const float back = lorry ? -0.15f * length : van ? -0.1f : -0.25f;
    const float cabin = lorry || van ? 0.85f * length : 0.55f * length;
    const float roof = lorry ? scene_uniform(random, 0.9f, 1.2f) : van ? 0.6f : 0.28f;
    const scene_size half[3] = {{0.75f * length, 0.9f * width, 0.15f},
                                {length, width, 0.33f},
                                {cabin, (lorry ? 1.0f : 0.85f) * width, roof}};
    const float tone[3] = {0.08f, paint, lorry ? paint : 0.1f}, lift[3] = {0, 0.25f, 0.9f};
    for (int i = 0; i < 3; ++i) {
        scene_solid part = scene_solid_make(scene_box, scene_class_vehicle, tone[i], half[i]);
        part.cosine = c;
        part.sine = s;
        const float shift = i == 2 ? back : 0;
        scene_add(street, part, x + shift * c, y + shift * s, lift[i]);
    }
}

SPIRA_API void scene_add_tree(scene *street, scene_random *random, float x, float y) {
    const float trunk = scene_uniform(random, 0.08f, 0.25f);
    const float crown = scene_uniform(random, 0.8f, 1.9f), foot = scene_uniform(random, 1.4f, 2.8f);
    const float tone = scene_uniform(random, 0.12f, 0.4f);
    scene_add(street,
              scene_solid_make(scene_cylinder, scene_class_plant,
                               scene_uniform(random, 0.15f, 0.45f),
                               {trunk, trunk, 0.5f * (foot + 0.8f * crown)}),
              x, y, 0);
    for (int i = 0; i < 3; ++i) {
        const float radius = crown * scene_uniform(random, 0.75f, 1.15f);
        const float dx = scene_normal(random, 0.4f * crown),
                    dy = scene_normal(random, 0.4f * crown);
        const scene_solid part =
            scene_solid_make(scene_foliage, scene_class_plant, tone, {radius, radius, radius});
        scene_add(street, part, x + dx, y + dy, foot + scene_uniform(random, 0, 0.8f * crown));
    }
}

// A pole, or a post of a sign: 2 to 9 m high.
SPIRA_API void scene_add_pole(scene *street, scene_random *random, float x, float y) {
    const bool lamp = scene_uniform(random, 0, 1) < 0.6f;
    const float radius = lamp ? scene_uniform(random, 0.06f, 0.11f) : 0.035f;
    const float half = lamp ? scene_uniform(random, 2.2f, 4.5f) : scene_uniform(random, 1, 1.5f);
    const float tone = scene_uniform(random, 0.2f, 0.7f);
    const scene_solid post =
        scene_solid_make(scene_cylinder, scene_class_pole, tone, {radius, radius, half});
    scene_add(street, post, x, y, 0);
    if (!lamp) { // the sign faces the traffic
        const scene_solid sign =
            scene_solid_make(scene_box, scene_class_pole, 0.9f, {0.02f, 0.3f, 0.3f});
        scene_add(street, sign, x, y, 2 * half - 0.6f);
    }
}

SPIRA_API void scene_add_person(scene *street, scene_random *random, float x, float y) {
    const float radius = scene_uniform(random, 0.18f, 0.28f);
    const scene_size half = {radius, radius, scene_uniform(random, 0.55f, 0.95f)};
    const float tone = scene_uniform(random, 0.08f, 0.6f);
    scene_add(street, scene_solid_make(scene_cylinder, scene_class_person, tone, half), x, y, 0);
}

SPIRA_API void scene_add_shrub(scene *street, scene_random *random, float x, float y) {
    const float radius = scene_uniform(random, 0.3f, 0.75f);
    const float tone = scene_uniform(random, 0.12f, 0.4f);
    scene_add(street,
              scene_solid_make(scene_foliage, scene_class_plant, tone, {radius, radius, radius}), x,
              y, -0.25f * radius);
}

// ---- streets ------------------------------------------------------------------------------------

// A row of houses with gaps, and with an opening for the side street.
SPIRA_API void scene_add_houses(scene *street, scene_random *random, float side) {
    const float gaps = scene_uniform(random, 0.05f, 0.6f), tall = scene_uniform(random, 4, 12);
    const float setback = scene_uniform(random, 0, 2.5f); // front gardens
    for (float x = -90; x < 90;) {
        const float width = scene_uniform(random, 7, 18), back = scene_uniform(random, 0, 1.4f);
        const float half = 0.5f * (tall + scene_uniform(random, 0, 8));
        const float wall = scene_uniform(random, 0.15f, 0.6f);
        if (scene_in_crossing(street, x + width / 2, width / 2)) {
            x = street->crossing + street->road;
        }
        const float front = street->road + street->walk + setback + back;
        const scene_solid house =
            scene_solid_make(scene_front, scene_class_building, wall, {width / 2, 6, half});
        scene_add(street, house, x + width / 2, street->middle + side * (front + 6), -1);
        x += width + (scene_uniform(random, 0, 1) < gaps ? scene_uniform(random, 2, 12) : 0);
    }
}

// Vehicles at the kerb and in the traffic of one side.
SPIRA_API void scene_add_vehicles(scene *street, scene_random *random, float side) {
    const float parked = scene_uniform(random, 0, 0.9f), thin = scene_uniform(random, 16, 70);
    const float kerb = street->middle + side * (street->road - 1.15f);
    const float lane = street->middle + side * 0.35f * street->road;
    for (float x = -80; x < 80; x += scene_uniform(random, 5.4f, 6.6f)) {
        const bool there = scene_uniform(random, 0, 1) < parked;
        if (there && street->road > 5 && !scene_in_crossing(street, x, 2.5f)) {
            scene_add_vehicle(street, random, x, kerb + scene_uniform(random, -0.15f, 0.1f));
        }
    }
    for (float x = -80; x < 80; x += scene_uniform(random, 9, thin)) {
        if (fabsf(lane) > 2 || fabsf(x) > 7) { // not on the sensor's own place
            scene_add_vehicle(street, random, x, lane + scene_normal(random, 0.15f));
        }
    }
}

// What grows and stands on the pavement of one side. `edge` is the distance of a row from the kerb.
SPIRA_API void scene_add_pavement(scene *street, scene_random *random, float side) {
    const float walk = street->walk, kerb = street->middle + side * street->road;
    const float trees = scene_uniform(random, 6.5f, 22), shrubs = scene_uniform(random, 1.5f, 20);
    const float poles = scene_uniform(random, 10, 32), edge = scene_uniform(random, 0.35f, 0.9f);
    for (float x = scene_uniform(random, -80, -60); x < 80;
         x += trees * scene_uniform(random, 0.8f, 1.2f)) {
        if (!scene_in_crossing(street, x, 1.5f)) {
            scene_add_tree(street, random, x, kerb + side * (edge + scene_normal(random, 0.1f)));
        }
    }
    for (float x = scene_uniform(random, -80, -60); x < 80;
         x += poles * scene_uniform(random, 0.7f, 1.3f)) {
        if (!scene_in_crossing(street, x, 0.3f)) {
            scene_add_pole(street, random, x, kerb + side * scene_uniform(random, 0.25f, 0.7f));
        }
    }
    for (float x = -60; x < 60; x += scene_uniform(random, 1, shrubs)) {
        if (!scene_in_crossing(street, x, 0.6f)) {
            scene_add_shrub(street, random, x,
                            kerb + side * (walk - scene_uniform(random, 0.2f, 0.8f)));
        }
    }
    const int people = (int)scene_uniform(random, 2, 16);
    for (int i = 0; i < people; ++i) {
        const float x = scene_uniform(random, -45, 45), across = scene_uniform(random, 0.9f, 1);
        const bool crosses = scene_uniform(random, 0, 1) < 0.1f; // walks on the road
        const float y = crosses ? scene_uniform(random, -2, -0.5f)
                                : 0.6f + across * scene_uniform(random, 0, walk - 1.2f);
        scene_add_person(street, random, x, kerb + side * y);
    }
}

SPIRA_API void scene_make(scene *street, uint32_t seed) {
    scene_random random = scene_random_make(seed, 0xffffffffu); // not the stream of any beam
    street->solids = 0;
    street->height = scene_uniform(&random, 1.55f, 2.1f);
    street->yaw = scene_normal(&random, 0.06f);
    street->road = scene_uniform(&random, 3.4f, 7.5f);
    street->walk = scene_uniform(&random, 2.4f, 5.5f);
    street->middle = street->road * scene_uniform(&random, 0, 0.45f); // drives on the right
    street->grade = scene_normal(&random, 0.012f);
    street->camber = scene_uniform(&random, 0.005f, 0.03f);
    street->step = scene_uniform(&random, 0.06f, 0.18f);
    street->fall = scene_uniform(&random, 0, 0.025f);
    street->road_intensity = scene_uniform(&random, 0.1f, 0.35f);
    street->walk_intensity = scene_uniform(&random, 0.2f, 0.5f);
    street->crossing = scene_uniform(&random, 14, 40);
    street->crossing *= scene_uniform(&random, 0, 1) < 0.5f ? -1.0f : 1.0f;
    for (int i = 0; i < 2; ++i) {
        const float side = i ? -1.0f : 1.0f;
        scene_add_houses(street, &random, side);
        scene_add_vehicles(street, &random, side);
        scene_add_pavement(street, &random, side);
    }
}

} // namespace scan

#endif
