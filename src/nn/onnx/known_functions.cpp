// SPDX-License-Identifier: Apache-2.0
#include "known_functions.hpp"

#include <memory>
#include <utility>
#include <variant>
#include <vector>

#include "function_table.hpp"
#include "sluice/nn/onnx.hpp"

namespace sluice::nn::detail {
namespace {

class expander {
public:
    expander(model& of, const own_operators& own) : model_(of), own_(own), names_(of.body) {}

    void run() {
        expand(model_.body);
        if (found_ != 0 && !model_.opsets.contains("")) model_.opsets[""] = newest_onnx_opset;
    }

private:
    const known_function* function_of(const node& each) const {
        if (own_.contains(each.domain, each.op)) return nullptr;
        for (const auto family : {&quantized_functions, &layer_functions}) {
            for (const known_function& known : family())
                if (known.name == each.op && known.domain == each.domain) return &known;
        }
        return nullptr;
    }

    // In a copy: graphs of attributes are shared and constant.
    void expand_inside(node& of) {
        for (auto& [name, value] : of.attributes) {
            auto* const inner = std::get_if<std::shared_ptr<const graph>>(&value);
            if (inner == nullptr) continue;
            auto made = std::make_shared<graph>(**inner);
            expand(*made);
            *inner = std::move(made);
        }
    }

    void expand(graph& body) {
        scopes_.push_back(&body);
        std::vector<node> made;
        for (std::size_t i = 0; i < body.nodes.size(); ++i) {
            node& each = body.nodes[i];
            expand_inside(each);
            const known_function* const known = function_of(each);
            if (known == nullptr) {
                made.push_back(std::move(each));
                continue;
            }
            ++found_;
            expanded_node call(model_, std::move(each), i, scopes_, names_, made);
            known->expand(call);
        }
        body.nodes = std::move(made);
        scopes_.pop_back();
    }

    model& model_;
    const own_operators& own_;
    new_names names_;
    std::vector<graph*> scopes_;
    std::size_t found_ = 0;
};

}  // namespace

void expand_known_functions(model& of, const own_operators& own) { expander(of, own).run(); }

}  // namespace sluice::nn::detail
