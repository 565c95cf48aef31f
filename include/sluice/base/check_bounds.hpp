// SPDX-License-Identifier: Apache-2.0
// SLUICE_CHECK_BOUNDS: whether kernels check what they access. 1: an access out of range by a view, matrix_view,
// tile_view, block_part, tile or tiles_of stops the command with an error that names the kernel, the index, the size
// and the source line of the access. 0: no check and no cost. Define it for a whole target, as 0 or 1; by default it is
// 1 where NDEBUG is not defined, else 0.
//
//     backend             the error                                                        afterwards
//     CPU, simulator      error, errc::out_of_range, of the command and what depends on it     all else continues
//     GPU                 device_error: the device faults, and the text names the access       the device is lost
//
// Files of one program may differ, such as a library with 0 and a user's file with 1. The types through which kernels
// access data, and the functions that launch, are in another inline namespace for each setting. So the linker does not
// mix the kernels of the two settings, and no compiled function of the library has such a type in its signature. Not
// told apart are inline functions of a header that launch, and function objects that hold a view: all files that
// include them need the same setting. A kernel whose operator() is noexcept ends the program instead on a CPU.
//
// On a GPU a launch with checks has 32 bytes more of shared memory and of arguments. The error lacks the access where
// the block's shared memory is full, and in `__global__` functions that launch() and launch_tiles() did not make.
#pragma once

#if !defined(SLUICE_CHECK_BOUNDS)
#if defined(NDEBUG)
#define SLUICE_CHECK_BOUNDS 0
#else
#define SLUICE_CHECK_BOUNDS 1
#endif
#endif

#if SLUICE_CHECK_BOUNDS
// The inline namespace of the types that differ between the two settings. For the library.
#define SLUICE_BOUNDS_ABI with_bounds_checks
#else
#define SLUICE_BOUNDS_ABI without_bounds_checks
#endif
