// SPDX-License-Identifier: Apache-2.0
#include "sluice/devices/process_group.hpp"

#include "devices/process_rank.hpp"
#include "sluice/base/error.hpp"

namespace sluice {
namespace {

struct process_call {
    detail::process_rank* by;
    detail::collective_form form;
    void* data;
};

void carry_out(const native_stream& on, const void* closure) {
    const auto& call = *static_cast<const process_call*>(closure);
    call.by->run(call.form, call.data, on);
}

}  // namespace

std::string process_group::hardware(device& which) {
    return which.kind() == device_kind::cuda ? detail::process_rank::hardware(which) : std::string();
}
process_group::invitation process_group::invite() { return detail::process_rank::invite(); }

process_group::process_group(device& on, const invitation& to, place here, source_location location)
    : on_(&on), here_(here) {
    const error_context context{"process_group", on.name(), location};
    if (on.kind() != device_kind::cuda) throw error(errc::unsupported, "a process group needs a GPU", context);
    if (here.rank >= here.size) {
        throw error(errc::invalid_argument,
                    "rank " + std::to_string(here.rank) + " of " + std::to_string(here.size) + " does not exist",
                    context);
    }
    by_ = detail::process_rank::join(on, to, here);
}

process_group::process_group(process_group&&) noexcept = default;
process_group::~process_group() = default;

bool process_group::is_complete() { return by_->is_complete(); }
void process_group::abandon() noexcept { by_->abandon(); }

void process_group::submit(stream on, const detail::collective_form& form, storage* memory,
                           const source_location& location) {
    const error_context context{form.name, on.owner().name(), location};
    if (&on.owner() != on_ || (memory != nullptr && &memory->owner() != on_)) {
        throw error(errc::invalid_argument, "the group belongs to " + on_->name(), context);
    }
    if (form.root >= size()) {
        throw error(errc::invalid_argument,
                    "rank " + std::to_string(form.root) + " of " + std::to_string(size()) + " does not exist", context);
    }
    if (on.queue().recorder() != nullptr) {
        throw error(
            errc::graph_refused,
            "a graph cannot contain collectives of a process group: all other ranks would have to match each launch",
            context);
    }
    if (!is_complete()) throw error(errc::invalid_argument, "not all ranks have joined yet", context);
    if (form.count == 0) return;
    const process_call call{by_.get(), form, memory->data()};
    // NCCL needs one order of its collectives on each GPU.
    const storage_ref order = on_->collective_order();
    const memory_access accesses[] = {{memory, access_mode::write}, {order.get(), access_mode::write}};
    on.library_call({form.name, accesses, location}, {carry_out, &call, sizeof(call)});
}

}  // namespace sluice
