// SPDX-License-Identifier: Apache-2.0
// The weights of the network in control_loop.hpp. Made by tools/train_pendulum.py.
#pragma once

namespace control_loop::weights {

inline constexpr unsigned units = 16;
// [units][3]: of angle, velocity and the integral of the angle.
inline constexpr float first[] = {
    -0.5994474f, 0.401225f,    4.656227f,    0.5287265f,   0.1380447f,  -1.631833f,  -1.523535f,  -0.3001202f,
    -3.328104f,  1.548675f,    -0.01876397f, 0.427597f,    -1.066617f,  -0.3626057f, -4.006514f,  -1.402615f,
    0.1997189f,  0.06146694f,  -0.7612861f,  -0.07975947f, -4.757785f,  2.051137f,   -0.4054718f, 0.1412726f,
    0.5994474f,  -0.401225f,   -4.656227f,   -0.5287265f,  -0.1380447f, 1.631833f,   1.523535f,   0.3001202f,
    3.328104f,   -1.548675f,   0.01876397f,  -0.427597f,   1.066617f,   0.3626057f,  4.006514f,   1.402615f,
    -0.1997189f, -0.06146694f, 0.7612861f,   0.07975947f,  4.757785f,   -2.051137f,  0.4054718f,  -0.1412726f,
};

inline constexpr float bias[] = {
    0.4048857f, 0.2259388f, -0.06514928f, -0.4057457f, 0.8367878f, -0.8331206f, -0.7104735f, -0.2428585f,
    0.4048857f, 0.2259388f, -0.06514928f, -0.4057457f, 0.8367878f, -0.8331206f, -0.7104735f, -0.2428585f,
};

inline constexpr float second[] = {
    2.660699f,  -15.77316f, 5.989581f,  13.35477f,  20.31146f,  9.191429f,  -6.066157f, -2.906109f,
    -2.660699f, 15.77316f,  -5.989581f, -13.35477f, -20.31146f, -9.191429f, 6.066157f,  2.906109f,
};

}  // namespace control_loop::weights
