// SPDX-License-Identifier: Apache-2.0
#include "graph/graph_instance.hpp"

namespace sluice::detail {

void graph_instance::bind(std::size_t slot, storage* to) {
    binding& it = bindings[slot];
    it.used = to;
    void* const address = to->data();
    if (it.address == address) return;
    it.address = nullptr;  // unknown, should an allocation fail half way
    for (const address_site& site : it.sites)
        program->set_address(site.node, site.at, static_cast<std::byte*>(address) + site.offset);
    it.address = address;
}

}  // namespace sluice::detail
