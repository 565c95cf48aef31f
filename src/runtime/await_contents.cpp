// SPDX-License-Identifier: Apache-2.0
#include "runtime/await_contents.hpp"

#include <exception>

#include "sluice/runtime/device.hpp"

namespace sluice::detail {

void await_contents(storage& memory, bool is_written, const error_context& context) {
    device& on = memory.owner();
    if (memory.is_planned()) {
        throw error(errc::graph_refused, "a tensor inside a graph has contents only while the graph runs", context);
    }
    if (is_written) {
        memory.await_all_uses();
    } else {
        memory.await_last_write();
    }
    on.throw_if_poisoned();
    const outcome_ref made = memory.last_write().depends_on;
    if (made && made->failure()) std::rethrow_exception(made->failure());
}

}  // namespace sluice::detail
