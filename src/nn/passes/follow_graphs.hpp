// SPDX-License-Identifier: Apache-2.0
// follow_graphs: how rows are followed into the graphs of Scan and of If. Part of follow_rows.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "nn/rows/amount.hpp"
#include "nn/rows/followed.hpp"
#include "nn/tried_shapes.hpp"
#include "sluice/nn/model.hpp"

namespace sluice::nn::detail {

// What is known of values, by their names.
using followed_values = std::map<std::string, rows::followed, std::less<>>;

// The walk through the network, as far as the graphs of nodes need it.
class graph_walk {
public:
    // Adds what is known of the values of the graph.
    virtual void walk(const graph& body, followed_values& known) = 0;
    // A length of which nothing is known, not even that it is another one's.
    virtual rows::amount new_length() = 0;
    // How many symbols there are up to now.
    virtual std::size_t symbol_count() const = 0;

protected:
    ~graph_walk() = default;
};

// Null where the attribute is no graph.
const graph* graph_of(const attribute& value);
// Adds the values from outside that the graph uses.
void add_used(const graph& in, std::set<std::string>& to);

// The outputs of a Scan or of an If. Throw cannot_follow.
std::vector<rows::followed> follow_rounds(graph_walk& by, const node_to_try& which,
                                          const std::vector<const rows::followed*>& inputs,
                                          const followed_values& known);
std::vector<rows::followed> follow_branches(graph_walk& by, const node_to_try& which,
                                            const std::vector<const rows::followed*>& inputs,
                                            const followed_values& known);

}  // namespace sluice::nn::detail
