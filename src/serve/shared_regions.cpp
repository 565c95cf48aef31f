// SPDX-License-Identifier: Apache-2.0
#include "sluice/serve/shared_regions.hpp"

#include <utility>

#include "serve/region_checks.hpp"
#include "serve/shared_tensors.hpp"
#include "sluice/serve/refusal.hpp"

namespace sluice::serve {
namespace {

std::string kind_words(region_kind kind) { return kind == region_kind::system ? "system" : "CUDA"; }

}  // namespace

// Before memory is opened for nothing; keep() looks again.
void shared_regions::require_free(std::string_view name) const {
    if (regions_.contains(name)) refuse_region(region_words(name) + " is registered already; unregister it first");
    if (regions_.size() == most_regions) {
        refuse_region("there are " + std::to_string(most_regions) +
                      " shared memory regions, which is the most; unregister one");
    }
}

void shared_regions::keep(std::shared_ptr<const shared_region> made) {
    const std::lock_guard lock(mutex_);
    require_free(made->name());
    regions_.emplace(made->name(), std::move(made));
}

void shared_regions::add(const std::string& name, const std::string& key, std::uint64_t offset, std::uint64_t bytes) {
    if (!allows(region_kind::system)) throw refusal(refusal_kind::forbidden, why_no_shared_memory);
    keep(std::make_shared<const system_region>(name, key, offset, bytes));
}

void shared_regions::add(const std::string& name, std::int64_t device_id, const gpu_memory_handle& handle,
                         std::uint64_t bytes) {
    if (!allows(region_kind::cuda)) throw refusal(refusal_kind::forbidden, why_no_cuda_memory);
    if (const std::string why = options_.gpus->why_not(); !why.empty())
        refuse_region("this server cannot open memory of a GPU: " + why);
    {
        const std::lock_guard lock(mutex_);
        require_free(name);
    }
    keep(std::make_shared<const cuda_region>(name, *options_.gpus, device_id, handle, bytes));
}

// A region is closed after the lock: that may take long.
void shared_regions::remove(region_kind kind, std::string_view name) {
    regions::node_type removed;
    const std::lock_guard lock(mutex_);
    const auto found = regions_.find(name);
    if (found == regions_.end()) return;
    if (found->second->kind() != kind) {
        refuse_region(region_words(name) + " is " + kind_words(found->second->kind()) +
                      " shared memory; unregister it as such");
    }
    removed = regions_.extract(found);
}

void shared_regions::remove_all(region_kind kind) {
    std::vector<regions::node_type> removed;
    const std::lock_guard lock(mutex_);
    for (auto each = regions_.begin(); each != regions_.end();) {
        const auto next = std::next(each);
        if (each->second->kind() == kind) removed.push_back(regions_.extract(each));
        each = next;
    }
}

std::shared_ptr<const shared_region> shared_regions::find(std::string_view name) const {
    const std::lock_guard lock(mutex_);
    const auto found = regions_.find(name);
    if (found == regions_.end()) refuse_region(region_words(name) + " is not registered");
    return found->second;
}

std::shared_ptr<const shared_region> shared_regions::find(region_kind kind, std::string_view name) const {
    auto found = find(name);
    if (found->kind() != kind)
        refuse_region(region_words(name) + " is " + kind_words(found->kind()) + " shared memory, not " +
                      kind_words(kind));
    return found;
}

std::shared_ptr<const system_region> shared_regions::find_system(std::string_view name) const {
    return std::static_pointer_cast<const system_region>(find(region_kind::system, name));
}

std::shared_ptr<const cuda_region> shared_regions::find_cuda(std::string_view name) const {
    return std::static_pointer_cast<const cuda_region>(find(region_kind::cuda, name));
}

template <typename Region>
std::vector<std::shared_ptr<const Region>> shared_regions::all(region_kind kind) const {
    const std::lock_guard lock(mutex_);
    std::vector<std::shared_ptr<const Region>> all;
    for (const auto& [name, each] : regions_)
        if (each->kind() == kind) all.push_back(std::static_pointer_cast<const Region>(each));
    return all;
}

std::vector<std::shared_ptr<const system_region>> shared_regions::all_system() const {
    return all<system_region>(region_kind::system);
}

std::vector<std::shared_ptr<const cuda_region>> shared_regions::all_cuda() const {
    return all<cuda_region>(region_kind::cuda);
}

}  // namespace sluice::serve
