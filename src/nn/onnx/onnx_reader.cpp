// SPDX-License-Identifier: Apache-2.0
#include <onnx.pb.h>
#include <algorithm>
#include <array>
#include <cctype>
#include <limits>
#include <new>
#include <optional>
#include <set>
#include <type_traits>
#include <utility>

#include "inline_functions.hpp"
#include "known_functions.hpp"
#include "sequences.hpp"
#include "sluice/base/file_error.hpp"
#include "sluice/base/printable.hpp"
#include "sluice/io/mapped_file.hpp"
#include "sluice/nn/onnx.hpp"
#include "tensor_reader.hpp"
#include "texts.hpp"
#include "zip_maps.hpp"

namespace sluice::nn {
namespace {

// Before version 4 all constants were listed as inputs.
constexpr std::int64_t oldest_ir = 3, newest_ir = 14, first_ir_with_defaults = 4;

// The numbers of AttributeProto.type.
enum attribute_kind : std::int32_t { f = 1, i, s, t, g, floats, ints, strings, sparse_tensor = 11 };
constexpr std::array<std::string_view, 15> attribute_kinds = {
    "UNDEFINED", "FLOAT",   "INT",    "STRING",        "TENSOR",         "GRAPH",      "FLOATS",     "INTS",
    "STRINGS",   "TENSORS", "GRAPHS", "SPARSE_TENSOR", "SPARSE_TENSORS", "TYPE_PROTO", "TYPE_PROTOS"};

// Some writers give each length that is not known the same name.
bool is_name(std::string_view length) {
    const auto is_letter = [](char each) { return std::isalpha(static_cast<unsigned char>(each)) != 0; };
    return length != "None" && std::ranges::any_of(length, is_letter);
}

// "" and "ai.onnx" are the same.
std::string domain_of(const std::string& domain) { return domain == "ai.onnx" ? std::string() : domain; }

class reader {
public:
    reader(const std::filesystem::path& path, const own_operators& own, data_links links)
        : path_(path), own_(own), tensors_(path, links) {}

    std::vector<std::filesystem::path> data_files() const { return tensors_.data_files(); }

    model read(onnx::ModelProto& file) {
        if (!file.has_ir_version() || !file.has_graph())
            refuse({}, "is not an ONNX model: it has no graph or no version");
        require_known("the model", file);
        if (file.ir_version() < oldest_ir || file.ir_version() > newest_ir) {
            refuse("ir_version", "is " + std::to_string(file.ir_version()) + "; " + std::to_string(oldest_ir) + " to " +
                                     std::to_string(newest_ir) + " are known");
        }
        has_defaults_ = file.ir_version() >= first_ir_with_defaults;
        detail::inline_functions(path_, file, own_);
        model made;
        made.path = path_;
        made.producer = file.producer_name();
        if (!file.producer_version().empty()) made.producer += " " + file.producer_version();
        for (const onnx::OperatorSetIdProto& each : file.opset_import()) {
            require_known("opset_import", each);
            // skl2onnx writes ai.onnx twice where the network has only nodes of ai.onnx.ml.
            const auto [known, is_new] = made.opsets.emplace(domain_of(each.domain()), each.version());
            if (!is_new && known->second != each.version()) {
                const std::string domain = known->first.empty() ? "ai.onnx" : known->first;
                refuse("opset_import", "names the domain " + in_quotes(domain) + " with the versions " +
                                           std::to_string(known->second) + " and " + std::to_string(each.version()));
            }
        }
        if (const auto own = made.opsets.find(""); own != made.opsets.end()) {
            if (own->second < oldest_onnx_opset || own->second > newest_onnx_opset) {
                refuse("opset_import", "asks for operator set " + std::to_string(own->second) + "; " +
                                           std::to_string(oldest_onnx_opset) + " to " +
                                           std::to_string(newest_onnx_opset) + " are known");
            }
        }
        made.body = read(*file.mutable_graph(), false);
        require_opsets(made, made.body);
        detail::expand_known_functions(made, own_);
        unfold_sequences(made);
        detail::number_texts(path_, made.body, tensors_);
        made.texts = tensors_.texts();
        check(made);
        return made;
    }

private:
    void unfold_sequences(model& in) const {
        const auto own = in.opsets.find("");
        detail::unfold_sequences(path_, own == in.opsets.end() ? newest_onnx_opset : own->second, in.body);
        for (const value_info& each : in.body.outputs) {
            if (sequences_.contains(each.name))
                refuse("output " + in_quotes(each.name), "is a sequence that no node makes");
        }
    }

    [[noreturn]] void refuse(std::string_view field, std::string_view why) const {
        detail::refuse_onnx(path_, field, why);
    }
    template <typename Message>
    void require_known(std::string_view field, const Message& message) const {
        detail::require_known(path_, field, message);
    }

    value_info read(const onnx::ValueInfoProto& from, std::string_view what, bool is_inner) const {
        const std::string label = std::string(what) + " " + in_quotes(from.name());
        require_known(label, from);
        require_known(label, from.type());
        // What is given to inner graphs has a type of its own.
        if (is_inner && from.type().value_case() == onnx::TypeProto::VALUE_NOT_SET)
            return {.name = from.name(), .type = io::dtype::f32, .shape = {}};
        if (!from.type().has_tensor_type())
            refuse(label, "is not a tensor; sequences, maps and the like are not supported");
        const onnx::TypeProto::Tensor& tensor = from.type().tensor_type();
        require_known(label, tensor);
        value_info made{.name = from.name(),
                        .type = tensors_.type_of(label, tensor.elem_type()),
                        .shape = {},
                        .is_text = detail::tensor_reader::is_text(tensor.elem_type())};
        if (!tensor.has_shape()) return made;
        require_known(label, tensor.shape());
        made.shape.emplace();
        for (const onnx::TensorShapeProto::Dimension& each : tensor.shape().dim()) {
            require_known(label, each);
            dimension length;
            if (each.has_dim_value()) {
                if (each.dim_value() < -1) refuse(label, "has a negative dimension");
                if (each.dim_value() != -1) length.length = std::size_t(each.dim_value());
            } else if (is_name(each.dim_param())) {
                length.name = each.dim_param();
            }
            made.shape->push_back(std::move(length));
        }
        return made;
    }

    // An output whose elements become outputs.
    value_info read_sequence(const onnx::ValueInfoProto& from) {
        const std::string label = "output " + in_quotes(from.name());
        const onnx::TypeProto& element = from.type().sequence_type().elem_type();
        if (!element.has_tensor_type()) refuse(label, "is a sequence of something else than tensors");
        sequences_.insert(from.name());
        return {.name = from.name(), .type = tensors_.type_of(label, element.tensor_type().elem_type()), .shape = {}};
    }

    attribute read(onnx::AttributeProto& from, const std::string& label) {
        require_known(label, from);
        if (from.has_ref_attr_name()) refuse(label, "refers to an attribute of a function, and is in none");
        // Not whether the type's own field is there: some writers leave out zeros and empty lists.
        const std::array<bool, 12> filled = {false,
                                             from.has_f(),
                                             from.has_i(),
                                             from.has_s(),
                                             from.has_t(),
                                             from.has_g(),
                                             from.floats_size() != 0,
                                             from.ints_size() != 0,
                                             from.strings_size() != 0,
                                             false,
                                             false,
                                             from.has_sparse_tensor()};
        for (std::size_t kind = 1; kind < filled.size(); ++kind) {
            if (filled[kind] && from.type() < std::int32_t(filled.size()) && std::size_t(from.type()) != kind)
                refuse(label, "has a value of the kind " + std::string(attribute_kinds[kind]) + ", and another type");
        }
        switch (from.type()) {
            case attribute_kind::f: return from.f();
            case attribute_kind::i: return std::int64_t(from.i());
            case attribute_kind::s: return from.s();
            case attribute_kind::t: return tensors_.read(*from.mutable_t(), label);
            case attribute_kind::g: return std::make_shared<const graph>(read(*from.mutable_g(), true));
            case attribute_kind::floats: return std::vector<float>(from.floats().begin(), from.floats().end());
            case attribute_kind::ints: return std::vector<std::int64_t>(from.ints().begin(), from.ints().end());
            case attribute_kind::strings: return std::vector<std::string>(from.strings().begin(), from.strings().end());
            case attribute_kind::sparse_tensor: return tensors_.read(*from.mutable_sparse_tensor(), label);
            default: break;
        }
        const auto kind = std::size_t(std::uint32_t(from.type()));
        refuse(label,
               "is of the kind " +
                   (kind < attribute_kinds.size() ? std::string(attribute_kinds[kind]) : std::to_string(from.type())) +
                   ", which is not supported");
    }

    node read(onnx::NodeProto& from, std::size_t position) {
        node made{.name = from.name(),
                  .domain = domain_of(from.domain()),
                  .op = from.op_type(),
                  .inputs = {from.input().begin(), from.input().end()},
                  .outputs = {from.output().begin(), from.output().end()},
                  .attributes = {}};
        const std::string label = label_of(made, position);
        require_known(label, from);
        if (made.op.empty()) refuse(label, "has no operator");
        for (onnx::AttributeProto& each : *from.mutable_attribute()) {
            attribute value = read(each, label + ": attribute " + in_quotes(each.name()));
            if (!made.attributes.emplace(each.name(), std::move(value)).second)
                refuse(label, "has the attribute " + in_quotes(each.name()) + " twice");
        }
        return made;
    }

    graph read(onnx::GraphProto& from, bool is_inner) {
        require_known("graph " + in_quotes(from.name()), from);
        graph made;
        made.name = from.name();
        const auto add_constant = [&](const std::string& name, auto& from_file) {
            const std::string label = "constant " + in_quotes(name);
            if (!made.constants.emplace(name, tensors_.read(from_file, label)).second) refuse(label, "is there twice");
        };
        for (onnx::TensorProto& each : *from.mutable_initializer()) add_constant(each.name(), each);
        for (onnx::SparseTensorProto& each : *from.mutable_sparse_initializer())
            add_constant(std::string(each.values().name()), each);
        for (const onnx::ValueInfoProto& each : from.input()) {
            const auto found = made.constants.find(each.name());
            if (found == made.constants.end()) {
                made.inputs.push_back(read(each, "input", is_inner));
            } else if (has_defaults_ && !is_inner && !found->second.is_text) {
                made.defaults.push_back(read(each, "input", is_inner));
            }
        }
        made.nodes.reserve(std::size_t(from.node_size()));
        for (onnx::NodeProto& each : *from.mutable_node()) made.nodes.push_back(read(each, made.nodes.size()));
        if (const node* const taker = detail::taker_of_maps(made); taker != nullptr) {
            refuse(label_of(*taker, std::size_t(taker - made.nodes.data())),
                   "takes the maps of a ZipMap, which are supported as outputs of the network only");
        }
        for (const onnx::ValueInfoProto& each : from.output()) {
            const bool is_sequence = each.type().value_case() == onnx::TypeProto::kSequenceType;
            std::optional<value_info> others;
            if (is_sequence && !is_inner) {
                others = detail::zipped_output(made, each.name());
                if (!others) others = read_sequence(each);
            }
            made.outputs.push_back(others ? *std::move(others) : read(each, "output", is_inner));
        }
        return made;
    }

    // Calls function(node, position) for each node, those of inner graphs too.
    template <typename Function>
    static void each_node(const graph& body, const Function& function) {
        for (std::size_t at = 0; at < body.nodes.size(); ++at) {
            function(body.nodes[at], at);
            for (const auto& [name, value] : body.nodes[at].attributes) {
                if (const auto* const inner = std::get_if<std::shared_ptr<const graph>>(&value))
                    each_node(**inner, function);
            }
        }
    }

    void require_opsets(const model& network, const graph& body) const {
        each_node(body, [&](const node& each, std::size_t at) {
            if (!network.opsets.contains(each.domain)) {
                refuse(label_of(each, at), "is of the domain " +
                                               in_quotes(each.domain.empty() ? "ai.onnx" : each.domain) +
                                               ", for which opset_import names no version");
            }
        });
    }

    const std::filesystem::path& path_;
    const own_operators& own_;
    detail::tensor_reader tensors_;
    bool has_defaults_ = false;
    std::set<std::string, std::less<>> sequences_;  // outputs of the network
};

onnx::ModelProto parse_message(std::span<const std::byte> file, const std::filesystem::path& path) {
    if (file.size() > std::size_t(std::numeric_limits<int>::max())) {
        throw file_error(path, file_error::no_offset, {},
                         "is larger than 2 GiB, which no ONNX model is: large constants are kept as external data");
    }
    onnx::ModelProto message;
    if (!message.ParseFromArray(file.data(), int(file.size())))
        throw file_error(path, file_error::no_offset, {}, "is not an ONNX model, or is damaged or cut off");
    return message;
}

[[noreturn]] void refuse_size(const std::filesystem::path& path) {
    throw file_error(path, file_error::no_offset, {}, "needs more memory than there is", errc::out_of_memory);
}

}  // namespace

bool onnx_supported() noexcept { return true; }

model read_onnx(std::span<const std::byte> file, const std::filesystem::path& path, const own_operators& own,
                data_links links) {
    try {
        onnx::ModelProto message = parse_message(file, path);
        return reader(path, own, links).read(message);
    } catch (const std::bad_alloc&) {
        refuse_size(path);
    }
}

std::vector<std::filesystem::path> load_onnx_data_files(const std::filesystem::path& path) {
    const io::mapped_file file(path);
    try {
        const own_operators none;
        onnx::ModelProto message = parse_message(file.bytes(), path);
        reader of(path, none, data_links::lead_anywhere);  // it is only asked which files these are
        static_cast<void>(of.read(message));
        return of.data_files();
    } catch (const std::bad_alloc&) {
        refuse_size(path);
    }
}

std::vector<std::pair<std::string, std::string>> load_onnx_metadata(const std::filesystem::path& path) {
    const io::mapped_file file(path);
    std::vector<std::pair<std::string, std::string>> made;
    try {
        const onnx::ModelProto message = parse_message(file.bytes(), path);
        for (const onnx::StringStringEntryProto& each : message.metadata_props())
            made.emplace_back(each.key(), each.value());
    } catch (const std::bad_alloc&) {
        refuse_size(path);
    }
    file.require_unchanged();
    return made;
}

model load_onnx(const std::filesystem::path& path, const own_operators& own, data_links links) {
    const io::mapped_file file(path);
    model made = read_onnx(file.bytes(), path, own, links);
    file.require_unchanged();
    return made;
}

}  // namespace sluice::nn
