// SPDX-License-Identifier: Apache-2.0
#include "texts.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "sluice/base/printable.hpp"

namespace sluice::nn::detail {
namespace {

using texts = std::vector<std::string>;
using numbers = std::vector<std::int64_t>;

// Text values by name. Each says whether its texts are all known to the network.
enum class known : unsigned char { all, some };
using text_values = std::map<std::string, known, std::less<>>;

// Operators that move elements, and how many inputs from which one they move.
struct mover {
    std::string_view op;
    std::size_t first = 0, count = 1;
};
constexpr std::size_t all_inputs = 1000;
constexpr std::array<mover, 21> movers = {{
    {"ArrayFeatureExtractor"},
    {"Concat", 0, all_inputs},
    {"DepthToSpace"},
    {"Expand"},
    {"Flatten"},
    {"Gather"},
    {"GatherElements"},
    {"GatherND"},
    {"Identity"},
    {"Compress"},
    {"Reshape"},
    {"ReverseSequence"},
    {"Slice"},
    {"Split"},
    {"Squeeze"},
    {"SpaceToDepth"},
    {"Tile"},
    {"Transpose"},
    {"Trilu"},
    {"Unsqueeze"},
    {"Where", 1, 2},
}};

const mover* mover_of(const node& each) {
    if (!each.domain.empty() && each.op != "ArrayFeatureExtractor") return nullptr;
    const auto found = std::ranges::find(movers, std::string_view(each.op), &mover::op);
    return found == movers.end() ? nullptr : &*found;
}

class numbering {
public:
    numbering(const std::filesystem::path& path, tensor_reader& tensors) : path_(path), tensors_(tensors) {}

    void number(graph& body, text_values values, bool is_inner) {
        for (const value_info& each : body.inputs)
            if (each.is_text) values[each.name] = known::some;
        for (const auto& [name, value] : body.constants)
            if (value.is_text) values[name] = known::all;
        for (std::size_t at = 0; at < body.nodes.size(); ++at) {
            label_ = label_of(body.nodes[at], at);
            number(body.nodes[at], values);
        }
        for (value_info& each : body.outputs) {
            const auto found = values.find(each.name);
            const bool is_text = found != values.end();
            const std::string label = "output " + in_quotes(each.name);
            if (is_text && is_inner)
                refuse_onnx(path_, label, "is text that an inner graph gives, which is not supported");
            if (is_text && found->second == known::some)
                refuse_onnx(path_, label, "may be a text of an input as it came, which is not supported");
            if (each.is_text && !is_text) refuse_onnx(path_, label, "is declared as text, and is none");
            each.is_text = is_text;
        }
    }

private:
    [[noreturn]] void refuse(std::string_view why) const { refuse_onnx(path_, label_, why); }

    static bool takes_text(const node& of, const text_values& values, std::size_t input = 0) {
        return input < of.inputs.size() && values.contains(of.inputs[input]);
    }
    static void gives(const node& of, text_values& values, known what) {
        for (const std::string& each : of.outputs)
            if (!each.empty()) values[each] = what;
    }

    numbers numbers_of(const texts& of) const {
        numbers made;
        for (const std::string& each : of) made.push_back(tensors_.number_of(each));
        return made;
    }
    // The attribute becomes a list of numbers with another name. False: it is not there.
    bool replace_list(node& of, const std::string& name, const std::string& by) const {
        const texts* const found = of.find<texts>(name);
        if (found == nullptr) return false;
        if (of.attributes.contains(by)) refuse("has " + in_quotes(name) + " and " + in_quotes(by));
        numbers made = numbers_of(*found);
        of.attributes.erase(name);
        of.attributes.emplace(by, std::move(made));
        return true;
    }
    bool is_text_tensor(const node& of, const std::string& name) const {
        const constant* const found = of.find<constant>(name);
        return found != nullptr && found->is_text;
    }

    void number(node& of, text_values& values) {
        for (auto& [name, value] : of.attributes) {
            if (const auto* const inner = std::get_if<std::shared_ptr<const graph>>(&value)) {
                auto changed = std::make_shared<graph>(**inner);
                const std::string around = label_;
                number(*changed, values, true);
                label_ = around;
                value = std::shared_ptr<const graph>(std::move(changed));
            }
        }
        const bool is_ml = of.domain == "ai.onnx.ml", is_plain = of.domain.empty();
        if (is_plain && of.op == "Constant") return number_constant(of, values);
        if (is_plain && of.op == "Cast") return number_cast(of, values);
        if (is_ml && of.op == "CategoryMapper") return number_mapper(of, values);
        if (is_ml && of.op == "LabelEncoder") return number_labels(of, values);
        if (is_ml && of.op == "OneHotEncoder") return look_up(of, values, "cats_strings", "cats_int64s");
        if (is_plain && of.op == "TfIdfVectorizer") return look_up(of, values, "pool_strings", "pool_int64s");
        if (is_ml && of.op == "TreeEnsembleClassifier") return number_classes(of, values, "classlabels_int64s");
        if (is_ml && (of.op == "LinearClassifier" || of.op == "SVMClassifier"))
            return number_classes(of, values, "classlabels_ints");
        const auto is_text = [&](const std::string& name) { return values.contains(name); };
        if (std::ranges::none_of(of.inputs, is_text)) return;
        if (is_plain && (of.op == "Shape" || of.op == "Size")) return;
        if (is_plain && of.op == "Equal") return require_comparable(of, values);
        if (const mover* const moves = mover_of(of)) return move(of, *moves, values);
        refuse(
            "takes texts, which it does not support; texts can be moved, compared with known ones, and looked up by "
            "LabelEncoder, OneHotEncoder, CategoryMapper and TfIdfVectorizer");
    }

    void number_constant(node& of, text_values& values) const {
        if (const std::string* const text = of.find<std::string>("value_string")) {
            const numbers made = numbers_of({*text});
            of.attributes.erase("value_string");
            of.attributes.emplace("value_int", made.front());
        } else if (!replace_list(of, "value_strings", "value_ints") && !is_text_tensor(of, "value")) {
            return;
        }
        gives(of, values, known::all);
    }

    void number_cast(node& of, text_values& values) const {
        const std::int64_t* const to = of.find<std::int64_t>("to");
        const bool gives_text = to != nullptr && tensor_reader::is_text(static_cast<std::int32_t>(*to));
        const bool takes = takes_text(of, values);
        if (!takes && !gives_text) return;
        if (takes != gives_text) refuse("makes numbers of texts or texts of numbers, which is not supported");
        of.op = "Identity";
        of.attributes.clear();
        gives(of, values, values.at(of.inputs[0]));
    }

    // Of version 1: places in one list of texts.
    void number_places(node& of, text_values& values, const std::string& list) const {
        const texts* const found = of.find<texts>(list);
        if (found == nullptr) refuse("has no " + in_quotes(list));
        numbers keys = numbers_of(*found), places(keys.size());
        std::iota(places.begin(), places.end(), std::int64_t{0});
        if (const numbers* const given = of.find<numbers>("cats_int64s")) places = *given;
        of.attributes.erase(list);
        of.attributes.erase("cats_int64s");
        const bool takes = takes_text(of, values);
        if (!takes) std::swap(keys, places);
        give_defaults(of, !takes);
        of.attributes["keys_int64s"] = std::move(keys);
        of.attributes["values_int64s"] = std::move(places);
        if (!takes) gives(of, values, known::all);
    }
    void number_mapper(node& of, text_values& values) const {
        number_places(of, values, "cats_strings");
        of.op = "LabelEncoder";
    }

    // What a key that is not known gives, if that is a text.
    void give_defaults(node& of, bool gives_text) const {
        const std::string* const text = of.find<std::string>("default_string");
        const std::string used = text != nullptr ? *text : "_Unused";
        of.attributes.erase("default_string");
        if (gives_text) of.attributes["default_int64"] = tensors_.number_of(used);
    }

    void number_labels(node& of, text_values& values) const {
        if (of.attributes.contains("classes_strings")) return number_places(of, values, "classes_strings");
        const bool has_keys = replace_list(of, "keys_strings", "keys_int64s") || is_text_tensor(of, "keys_tensor");
        if (has_keys != takes_text(of, values))
            refuse(has_keys ? "has keys that are texts, and takes numbers"
                            : "has keys that are numbers, and takes texts");
        const bool gives_text =
            replace_list(of, "values_strings", "values_int64s") || is_text_tensor(of, "values_tensor");
        if (!gives_text || !is_text_tensor(of, "default_tensor")) give_defaults(of, gives_text);
        if (gives_text) gives(of, values, known::all);
    }

    void look_up(node& of, const text_values& values, const std::string& list, const std::string& as) const {
        const bool has_texts = replace_list(of, list, as);
        if (has_texts != takes_text(of, values))
            refuse(has_texts ? "knows texts, and takes numbers" : "knows numbers, and takes texts");
    }

    void number_classes(node& of, text_values& values, const std::string& as) const {
        if (takes_text(of, values)) refuse("takes texts; it takes numbers");
        const texts* const labels = of.find<texts>("classlabels_strings");
        if (labels == nullptr) return;
        if (labels->empty() && of.attributes.contains(as)) {
            of.attributes.erase("classlabels_strings");
            return;
        }
        if (labels->size() < 2) refuse("has fewer than 2 labels, which are texts");
        replace_list(of, "classlabels_strings", as);
        if (!of.outputs.empty() && !of.outputs[0].empty()) values[of.outputs[0]] = known::all;
    }

    void require_comparable(const node& of, const text_values& values) const {
        std::size_t unknown = 0;
        for (const std::string& each : of.inputs) {
            const auto found = values.find(each);
            if (found == values.end()) refuse("compares texts with numbers");
            unknown += found->second == known::some ? 1 : 0;
        }
        if (unknown > 1) refuse("compares texts of inputs with each other, which is not supported");
    }

    void move(const node& of, const mover& moves, text_values& values) const {
        known what = known::all;
        for (std::size_t i = 0; i < of.inputs.size(); ++i) {
            const auto found = values.find(of.inputs[i]);
            const bool is_moved = i >= moves.first && i < moves.first + moves.count;
            if ((found != values.end()) != is_moved && !of.inputs[i].empty())
                refuse("has texts and numbers in the wrong places");
            if (is_moved && found != values.end() && found->second == known::some) what = known::some;
        }
        gives(of, values, what);
    }

    const std::filesystem::path& path_;
    tensor_reader& tensors_;
    std::string label_;
};

}  // namespace

void number_texts(const std::filesystem::path& path, graph& body, tensor_reader& tensors) {
    numbering(path, tensors).number(body, {}, false);
}

}  // namespace sluice::nn::detail
