// SPDX-License-Identifier: Apache-2.0
#include "zip_maps.hpp"

#include <algorithm>
#include <set>
#include <vector>

namespace sluice::nn::detail {
namespace {

bool is_zip_map(const node& each) { return each.op == "ZipMap" && each.domain == "ai.onnx.ml"; }

std::size_t label_count(const node& of) {
    const auto* const numbers = of.find<std::vector<std::int64_t>>("classlabels_int64s");
    if (numbers != nullptr) return numbers->size();
    const auto* const texts = of.find<std::vector<std::string>>("classlabels_strings");
    return texts == nullptr ? 0 : texts->size();
}

}  // namespace

std::optional<value_info> zipped_output(const graph& of, const std::string& name) {
    const auto found = std::ranges::find_if(of.nodes, [&](const node& each) {
        return is_zip_map(each) && each.outputs.size() == 1 && each.outputs.front() == name;
    });
    if (found == of.nodes.end()) return std::nullopt;
    const dimension labels{.length = label_count(*found), .name = {}};
    return value_info{.name = name, .type = io::dtype::f32, .shape = {{dimension(), labels}}};
}

const node* taker_of_maps(const graph& of) {
    std::set<std::string> maps;
    for (const node& each : of.nodes)
        if (is_zip_map(each)) maps.insert(each.outputs.begin(), each.outputs.end());
    if (maps.empty()) return nullptr;
    const auto takes = [&](const node& each) {
        return std::ranges::any_of(each.inputs, [&](const std::string& name) { return maps.contains(name); });
    };
    const auto found = std::ranges::find_if(of.nodes, takes);
    return found == of.nodes.end() ? nullptr : &*found;
}

}  // namespace sluice::nn::detail
