// SPDX-License-Identifier: Apache-2.0
#include "serve/configured_tensors.hpp"

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "serve/text_elements.hpp"
#include "sluice/base/file_error.hpp"
#include "sluice/base/printable.hpp"
#include "sluice/serve/tensor_view.hpp"

namespace sluice::serve {
namespace {

// "[8, 64]"; -1: any length.
template <typename Lengths, typename Value>
std::string text_of(const Lengths& lengths, const Value& value_of) {
    std::string text = "[";
    for (const auto& each : lengths) text += (text.size() > 1 ? ", " : "") + std::to_string(value_of(each));
    return text + "]";
}
std::string text_of(const std::vector<nn::dimension>& shape) {
    return text_of(shape, [](const nn::dimension& each) {
        return each.length ? static_cast<std::int64_t>(*each.length) : std::int64_t{-1};
    });
}

// A length that the network leaves open may be any.
bool fits(const std::vector<std::int64_t>& dims, std::span<const nn::dimension> shape) {
    return std::ranges::equal(dims, shape, [](std::int64_t said, const nn::dimension& its) {
        return !its.length || said == static_cast<std::int64_t>(*its.length);
    });
}

class tensor_check {
public:
    tensor_check(const std::filesystem::path& file, std::string kind, const configured_tensors& said,
                 const std::vector<nn::value_info>& has)
        : file_(file), kind_(std::move(kind)), said_(said), has_(has) {}

    void run(bool must_list_all) const {
        for (const configured_tensor& each : said_.all) check(each);
        if (!must_list_all || said_.all.empty()) return;
        for (const nn::value_info& each : has_) {
            if (std::ranges::find(said_.all, each.name, &configured_tensor::name) == said_.all.end())
                refuse(each.name, "the network has this " + kind_ + ", and the configuration does not list it");
        }
    }

private:
    [[noreturn]] void refuse(const std::string& name, const std::string& why) const {
        throw file_error(file_, file_error::no_offset, kind_ + " " + in_quotes(name), why);
    }

    void check(const configured_tensor& one) const {
        const auto its = std::ranges::find(has_, one.name, &nn::value_info::name);
        if (its == has_.end()) refuse(one.name, "the network has no such " + kind_ + "; it has " + names());
        const nn::value_info said{.name = {}, .type = one.type, .shape = {}, .is_text = one.is_text};
        if (datatype_of(said) != datatype_of(*its)) {
            refuse(one.name, "the configuration says " + std::string(datatype_of(said)) + ", and the network has " +
                                 std::string(datatype_of(*its)));
        }
        if (!its->shape) return;
        std::span<const nn::dimension> shape(*its->shape);
        if (said_.has_rows) {
            if (shape.empty() || shape.front().length)
                refuse(one.name, "max_batch_size is not 0, but the network has the shape " + text_of(*its->shape) +
                                     ", whose first dimension is not of any length: say max_batch_size: 0");
            shape = shape.subspan(1);
        }
        if (fits(one.dims, shape)) return;
        refuse(one.name, "the configuration says dims " + text_of(one.dims, [](std::int64_t each) { return each; }) +
                             (said_.has_rows ? " after the first dimension" : "") + ", and the network has the shape " +
                             text_of(*its->shape));
    }

    std::string names() const {
        std::string all;
        for (const nn::value_info& each : has_) all += (all.empty() ? "" : ", ") + in_quotes(each.name);
        return all;
    }

    const std::filesystem::path& file_;
    const std::string kind_;
    const configured_tensors& said_;
    const std::vector<nn::value_info>& has_;
};

}  // namespace

void require_configured_tensors(const std::filesystem::path& file, const model_config& config,
                                const loaded_model& network) {
    tensor_check(file, "input", config.inputs, network.inputs()).run(true);
    tensor_check(file, "output", config.outputs, network.outputs()).run(false);
}

}  // namespace sluice::serve
