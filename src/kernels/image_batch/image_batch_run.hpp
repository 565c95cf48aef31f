// SPDX-License-Identifier: Apache-2.0
// Enqueues the steps of an image batch on a stream of a GPU, each in its way.
#pragma once

#include <map>
#include <mutex>

#include "kernels/image_batch/image_batch.hpp"
#include "kernels/image_batch/image_batch_ways.hpp"
#include "sluice/base/error.hpp"
#include "sluice/cuda/device_context.hpp"

struct CUfunc_st;
struct CUstream_st;

namespace sluice::kernels {

inline const error_context image_batch_context{"convolutions"};

// The kernels' handles, as the driver knows them. May be used on any thread.
class kernel_handles {
public:
    explicit kernel_handles(cuda::device_context&) {}

    CUfunc_st* find(const launch_command& command);

private:
    std::mutex mutex_;
    std::map<const void*, CUfunc_st*> known_;
};

// Carries out single steps of a call.
class step_run {
public:
    step_run(const batch_call& call, void* workspace, batch_libraries& libraries, kernel_handles& kernels,
             CUstream_st* on)
        : call_(call), workspace_(workspace), libraries_(libraries), kernels_(kernels), on_(on) {}

    // `step` is one of the call's: some ways carry out the steps next to it too.
    void operator()(const image_step& step, const convolution_way& by) const;

private:
    std::byte* at(const image_place& place) const { return call_.scratch + place.first * short_bytes; }
    void launch(const launch_command& command, bool is_first) const;

    const batch_call& call_;
    void* const workspace_;
    batch_libraries& libraries_;
    kernel_handles& kernels_;
    CUstream_st* const on_;
};

}  // namespace sluice::kernels
