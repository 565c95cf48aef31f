// SPDX-License-Identifier: Apache-2.0
#include "sluice/nn/model.hpp"

#include <unordered_set>

#include "sluice/base/error.hpp"
#include "sluice/base/file_error.hpp"
#include "sluice/base/printable.hpp"

namespace sluice::nn {
namespace {

// The values that are known at one place: those of this graph, then of the graphs around it.
struct scope {
    const scope* around = nullptr;
    std::unordered_set<std::string_view> names = {};

    bool knows(std::string_view name) const {
        for (const scope* each = this; each != nullptr; each = each->around)
            if (each->names.contains(name)) return true;
        return false;
    }
};

class checker {
public:
    explicit checker(const std::filesystem::path& path) : path_(path) {}

    void check(const graph& body, const scope* around) const {
        scope here{.around = around};
        for (const value_info& each : body.inputs) give(here, each.name, "input " + in_quotes(each.name));
        // A constant may have an input's name: then it is the input's value unless another is given.
        for (const auto& [name, unused] : body.constants) here.names.insert(name);
        for (std::size_t i = 0; i < body.nodes.size(); ++i) check(body.nodes[i], i, here);
        for (const value_info& each : body.outputs) {
            if (!here.knows(each.name))
                refuse("output " + in_quotes(each.name), "is given by no node, input or constant");
        }
    }

private:
    [[noreturn]] void refuse(std::string_view field, std::string_view why) const {
        throw file_error(path_, file_error::no_offset, field, why);
    }

    void give(scope& here, std::string_view name, const std::string& giver) const {
        if (name.empty()) refuse(giver, "gives a value without a name");
        if (here.knows(name)) refuse(giver, "gives the value " + in_quotes(name) + ", which exists already");
        here.names.insert(name);
    }

    void check(const node& each, std::size_t position, scope& here) const {
        const std::string label = label_of(each, position);
        for (const std::string& name : each.inputs) {
            if (!name.empty() && !here.knows(name))
                refuse(label, "takes the value " + in_quotes(name) + ", which nothing before it gives");
        }
        for (const auto& [name, value] : each.attributes) {
            if (const auto* const body = std::get_if<std::shared_ptr<const graph>>(&value)) check(**body, &here);
        }
        for (const std::string& name : each.outputs) {
            if (!name.empty()) give(here, name, label);
        }
    }

    const std::filesystem::path& path_;
};

}  // namespace

void node::refuse_type(std::string_view attribute_name) const {
    throw error(errc::bad_file, "the attribute " + in_quotes(attribute_name) + " of " + printable(op) +
                                    " has another type than the operator's");
}

std::string label_of(const node& which, std::size_t position) {
    return "node " + (which.name.empty() ? std::to_string(position) : in_quotes(which.name)) + " (" +
           printable(which.op) + ")";
}

void check(const model& network) { checker(network.path).check(network.body, nullptr); }

}  // namespace sluice::nn
