// A gate that holds a stream.
#pragma once

#include <latch>
#include <memory>
#include <utility>

#include "sluice/runtime/stream.hpp"

namespace sluice::test_support {

// Holds a stream: what is submitted behind it does not run before open(). It opens when it is dropped.
class gate {
public:
    explicit gate(stream& held) {
        held.host_call({"gate"}, {[latch = latch_] { latch->wait(); }});
    }
    gate(const gate&) = delete;  // one stream, one gate
    gate& operator=(const gate&) = delete;
    ~gate() { open(); }

    void open() {
        if (!std::exchange(is_open_, true)) latch_->count_down();
    }

private:
    std::shared_ptr<std::latch> latch_ = std::make_shared<std::latch>(1);
    bool is_open_ = false;
};

}  // namespace sluice::test_support
