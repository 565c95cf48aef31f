// SPDX-License-Identifier: Apache-2.0
// Owns a coroutine: dropping the owner destroys the frame and all that it holds. The coroutine must be suspended then.
#pragma once

#include <coroutine>
#include <memory>

namespace sluice::detail {

template <typename Promise>
class destroy_frame {
public:
    using pointer = std::coroutine_handle<Promise>;
    void operator()(pointer frame) const noexcept { frame.destroy(); }
};

template <typename Promise>
using coroutine_frame = std::unique_ptr<Promise, destroy_frame<Promise>>;

}  // namespace sluice::detail
