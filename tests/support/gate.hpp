// SPDX-License-Identifier: Apache-2.0
// gate: blocks a stream until a test opens it.
#pragma once

#include <cstdlib>
#include <latch>
#include <memory>
#include <utility>

#include "sluice/runtime/stream.hpp"

namespace sluice::test_support {

// With lazy loading the first launch of a kernel waits until the GPU is idle: for ever, while a gate holds a stream. A
// test that runs first or alone meets this, so programs with gates load their kernels at the start.
inline const int kernels_are_loaded_at_the_start = setenv("CUDA_MODULE_LOADING", "EAGER", 1);

// Commands submitted to the stream after the gate do not run before open(). The destructor opens the gate.
class gate {
public:
    explicit gate(stream held) {
        held.host_call({"gate"}, {[reached = reached_, latch = latch_] {
                           reached->count_down();
                           latch->wait();
                       }});
    }
    gate(const gate&) = delete;  // one stream, one gate
    gate& operator=(const gate&) = delete;
    ~gate() { open(); }

    // Until then a device that is lost drops the gate as it drops each call that has not begun.
    void wait_until_reached() { reached_->wait(); }

    void open() {
        if (!std::exchange(is_open_, true)) latch_->count_down();
    }

private:
    std::shared_ptr<std::latch> reached_ = std::make_shared<std::latch>(1);
    std::shared_ptr<std::latch> latch_ = std::make_shared<std::latch>(1);
    bool is_open_ = false;
};

}  // namespace sluice::test_support
