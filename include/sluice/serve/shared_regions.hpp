// SPDX-License-Identifier: Apache-2.0
// shared_regions: the memory that clients share with the server, by the names under which they have registered it:
// Triton's extensions "system_shared_memory" and "cuda_shared_memory". A name is of one region, of either kind.
//
//     serve::shared_regions regions;                                               // POSIX shared memory only
//     serve::shared_regions both({.gpus = engine.gpu_memory()});                   // and memory on GPUs
//
// Thread safety: all members may be called on any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/serve/gpu_memory.hpp"
#include "sluice/serve/shared_region.hpp"

namespace sluice::serve {

// Which kinds of memory clients may register.
struct shared_regions_options {
    bool system = true;  // whether clients may register POSIX shared memory
    // Opens memory on GPUs, which must live as long as the regions. Empty: clients may not register any.
    std::shared_ptr<const gpu_memory_opener> gpus = {};
};

class shared_regions {
public:
    static constexpr std::size_t most_regions = 256;  // that may be registered at a time, of both kinds together

    // Without a region. Costs O(1).
    explicit shared_regions(shared_regions_options options = {}) : options_(std::move(options)) {}

    // Whether clients may register memory of this kind. Without that, add() throws refusal (forbidden). Costs O(1).
    bool allows(region_kind kind) const noexcept {
        return kind == region_kind::system ? options_.system : options_.gpus != nullptr;
    }
    // Whether there is any memory of this kind: a GPU. Costs O(1), and for a GPU what gpu_memory_opener::why_not costs.
    bool has(region_kind kind) const {
        return allows(kind) && (kind == region_kind::system || options_.gpus->why_not().empty());
    }

    // `key`: the name of an object of shared memory, as shm_open takes it: no '/' but at its beginning. The part from
    // `offset` on, of `bytes`, must be in the object now. Throws refusal (bad_request), also for a name that is in use.
    // Costs a few calls of the system, and O(log regions).
    void add(const std::string& name, const std::string& key, std::uint64_t offset, std::uint64_t bytes);
    // Memory on the GPU `device_id`, by the handle that cudaIpcGetMemHandle has given its owner. Throws refusal as
    // gpu_memory_opener::open() does, and bad_request where there is no GPU and for a name that is in use. Costs what
    // gpu_memory_opener::open costs, and O(log regions).
    void add(const std::string& name, std::int64_t device_id, const gpu_memory_handle& handle, std::uint64_t bytes);
    // A name that is not registered is no error, as with Triton. Throws refusal (bad_request) where the region of this
    // name is of the other kind. Costs O(log regions), and the end of the region where no request uses it.
    void remove(region_kind kind, std::string_view name);
    // Each region of this kind. Costs O(regions), and the end of each where no request uses it.
    void remove_all(region_kind kind);
    // Of either kind. Throws refusal (bad_request). Costs O(log regions).
    std::shared_ptr<const shared_region> find(std::string_view name) const;
    // Throws refusal (bad_request), also where the region of this name is of the other kind. Costs O(log regions).
    std::shared_ptr<const system_region> find_system(std::string_view name) const;
    // Throws as find_system() does. Costs O(log regions).
    std::shared_ptr<const cuda_region> find_cuda(std::string_view name) const;
    std::vector<std::shared_ptr<const system_region>> all_system() const;  // by name; costs O(regions)
    std::vector<std::shared_ptr<const cuda_region>> all_cuda() const;      // by name; costs O(regions)

private:
    using regions = std::map<std::string, std::shared_ptr<const shared_region>, std::less<>>;

    void require_free(std::string_view name) const;
    void keep(std::shared_ptr<const shared_region> made);
    std::shared_ptr<const shared_region> find(region_kind kind, std::string_view name) const;
    template <typename Region>
    std::vector<std::shared_ptr<const Region>> all(region_kind kind) const;

    const shared_regions_options options_;
    mutable std::mutex mutex_;
    regions regions_;
};

}  // namespace sluice::serve
