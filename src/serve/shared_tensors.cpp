// SPDX-License-Identifier: Apache-2.0
#include "serve/shared_tensors.hpp"

#include "serve/request_checks.hpp"
#include "sluice/serve/refusal.hpp"

namespace sluice::serve {
namespace {

std::shared_ptr<const shared_region> require_region(const shared_memory_access& from,
                                                    const region_parameters& parameters, const std::string& where) {
    if (!from.regions) refuse_request(where + " is in shared memory, but " + why_no_shared_memory);
    if (!parameters.region || !parameters.bytes) {
        refuse_request(where + " lacks the parameter '" +
                       (parameters.region ? "shared_memory_byte_size" : "shared_memory_region") + "'");
    }
    auto region = from.regions->find(*parameters.region);
    region->require_part(parameters.offset.value_or(0), *parameters.bytes);
    return region;
}

}  // namespace

void output_place::write(std::span<const std::byte> from, const std::string& where) const {
    if (from.size() > bytes) {
        refuse_request(where + " has " + std::to_string(from.size()) + " bytes; shared_memory_byte_size is " +
                       std::to_string(bytes));
    }
    region->write(offset, from);
}

std::span<const std::byte> shared_tensors::read(const shared_memory_access& from, const region_parameters& parameters,
                                                const std::string& where) {
    const std::shared_ptr<const shared_region> region = require_region(from, parameters, where);
    const std::span<std::byte> copy = memory_.add(from.budget, *parameters.bytes);
    region->read(parameters.offset.value_or(0), copy);
    return copy;
}

output_place find_output_place(const shared_memory_access& from, const region_parameters& parameters,
                               const std::string& where) {
    return {require_region(from, parameters, where), parameters.offset.value_or(0), *parameters.bytes};
}

}  // namespace sluice::serve
