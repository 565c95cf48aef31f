// SPDX-License-Identifier: Apache-2.0
#include "check/work.hpp"

namespace sluice::check {
namespace {

enum class side : unsigned char { device, pinned, pageable };

side side_of(std::uint64_t at, bool is_host_if_unknown, blocks& memory) {
    const block* const found = memory.find(at);
    if (found == nullptr) return is_host_if_unknown ? side::pageable : side::device;
    return found->where == place_kind::pinned ? side::pinned : side::device;
}

work work_of_copy(const event& from, blocks& memory) {
    const copy_kind kind = from.direction;
    const bool source_is_host = kind != copy_kind::to_host && kind != copy_kind::on_device;
    const bool target_is_host = kind != copy_kind::to_device && kind != copy_kind::on_device;
    const side source = side_of(from.from.at, source_is_host, memory);
    const side target = side_of(from.to.at, target_is_host, memory);
    work made;
    made.uses.reserve(2);
    if (source != side::pageable) made.uses.push_back({from.from, access_mode::read});
    if (target != side::pageable) made.uses.push_back({from.to, access_mode::write});
    const bool is_on_device = source == side::device && target == side::device;
    const bool is_on_host = source != side::device && target != side::device;
    if (source == side::pageable && target == side::device) {
        made.host_waits_before = from.sync;  // then the bytes are staged, and the call returns
        return made;
    }
    made.host_waits_after = (from.sync && !is_on_device) || target == side::pageable || is_on_host;
    return made;
}

work work_of_fill(const event& from, blocks& memory) {
    const block* const target = memory.find(from.to.at);
    work made;
    made.uses.push_back({from.to, access_mode::write});
    made.host_waits_after = from.sync && target != nullptr && target->where != place_kind::device;
    return made;
}

}  // namespace

work work_of(const event& from, call what, blocks& memory) {
    if (what == call::copy) return work_of_copy(from, memory);
    if (what == call::fill) return work_of_fill(from, memory);
    work made;
    for (const argument& each : from.args) {
        const bool is_pointer = memory.find(each.at) != nullptr || memory.find_freed(each.at) != nullptr;
        const std::uint64_t bytes = each.bytes == 0 ? 1 : each.bytes;
        if (is_pointer) made.uses.push_back({{each.at, bytes, 1, bytes}, each.mode});
    }
    return made;
}

}  // namespace sluice::check
