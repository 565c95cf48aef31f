// SPDX-License-Identifier: Apache-2.0
#include <onnx.pb.h>
#include <array>
#include <cstring>
#include <limits>
#include <new>
#include <optional>
#include <type_traits>
#include <utility>

#include "external_data.hpp"
#include "inline_functions.hpp"
#include "sluice/base/file_error.hpp"
#include "sluice/base/printable.hpp"
#include "sluice/io/mapped_file.hpp"
#include "sluice/nn/onnx.hpp"
#include "zip_maps.hpp"

namespace sluice::nn {
namespace {

constexpr std::int64_t oldest_ir = 3, newest_ir = 14;

struct element_type {
    std::string_view name;          // in ONNX
    std::optional<io::dtype> type;  // none: not supported
};
// By the number that a file has. The complex and the narrow types are in models that no ordinary exporter writes.
constexpr std::array<element_type, 25> element_types = {{
    {"UNDEFINED", {}},
    {"FLOAT", io::dtype::f32},
    {"UINT8", io::dtype::u8},
    {"INT8", io::dtype::i8},
    {"UINT16", io::dtype::u16},
    {"INT16", io::dtype::i16},
    {"INT32", io::dtype::i32},
    {"INT64", io::dtype::i64},
    {"STRING", {}},
    {"BOOL", io::dtype::boolean},
    {"FLOAT16", io::dtype::f16},
    {"DOUBLE", io::dtype::f64},
    {"UINT32", io::dtype::u32},
    {"UINT64", io::dtype::u64},
    {"COMPLEX64", {}},
    {"COMPLEX128", {}},
    {"BFLOAT16", io::dtype::bf16},
    {"FLOAT8E4M3FN", {}},
    {"FLOAT8E4M3FNUZ", {}},
    {"FLOAT8E5M2", {}},
    {"FLOAT8E5M2FNUZ", {}},
    {"UINT4", {}},
    {"INT4", {}},
    {"FLOAT4E2M1", {}},
    {"FLOAT8E8M0", {}},
}};

// The numbers of AttributeProto.type.
enum attribute_kind : std::int32_t { f = 1, i, s, t, g, floats, ints, strings };
constexpr std::array<std::string_view, 15> attribute_kinds = {
    "UNDEFINED", "FLOAT",   "INT",    "STRING",        "TENSOR",         "GRAPH",      "FLOATS",     "INTS",
    "STRINGS",   "TENSORS", "GRAPHS", "SPARSE_TENSOR", "SPARSE_TENSORS", "TYPE_PROTO", "TYPE_PROTOS"};

// "" and "ai.onnx" are the same.
std::string domain_of(const std::string& domain) { return domain == "ai.onnx" ? std::string() : domain; }

class reader {
public:
    reader(const std::filesystem::path& path, const own_operators& own, data_links links)
        : path_(path), own_(own), external_(path, links) {}

    std::vector<std::filesystem::path> data_files() const { return external_.files(); }

    model read(onnx::ModelProto& file) const {
        if (!file.has_ir_version() || !file.has_graph())
            refuse({}, "is not an ONNX model: it has no graph or no version");
        require_known("the model", file);
        if (file.ir_version() < oldest_ir || file.ir_version() > newest_ir) {
            refuse("ir_version", "is " + std::to_string(file.ir_version()) + "; " + std::to_string(oldest_ir) + " to " +
                                     std::to_string(newest_ir) + " are known");
        }
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
        check(made);
        return made;
    }

private:
    [[noreturn]] void refuse(std::string_view field, std::string_view why) const {
        throw file_error(path_, file_error::no_offset, field, why);
    }

    template <typename Message>
    void require_known(std::string_view field, const Message& message) const {
        if (!message.unknown_fields().empty())
            refuse(field, "has a field that is not known: the file is damaged, or of a newer version of ONNX");
    }

    io::dtype type_of(std::string_view field, std::int32_t number) const {
        const bool is_known = number >= 0 && std::size_t(number) < element_types.size();
        if (is_known && element_types[std::size_t(number)].type) return *element_types[std::size_t(number)].type;
        std::string accepted;
        for (const element_type& each : element_types) {
            if (each.type) accepted += (accepted.empty() ? "" : ", ") + std::string(each.name);
        }
        refuse(field, "has elements of type " +
                          (is_known ? std::string(element_types[std::size_t(number)].name) : std::to_string(number)) +
                          "; supported are " + accepted);
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
        value_info made{.name = from.name(), .type = type_of(label, tensor.elem_type()), .shape = {}};
        if (!tensor.has_shape()) return made;
        require_known(label, tensor.shape());
        made.shape.emplace();
        for (const onnx::TensorShapeProto::Dimension& each : tensor.shape().dim()) {
            require_known(label, each);
            dimension length;
            if (each.has_dim_value()) {
                if (each.dim_value() < 0) refuse(label, "has a negative dimension");
                length.length = std::size_t(each.dim_value());
            } else {
                length.name = each.dim_param();
            }
            made.shape->push_back(std::move(length));
        }
        return made;
    }

    // The bytes of a tensor whose elements are in a field of numbers, each narrowed to its type.
    template <typename Narrow, typename Numbers>
    std::string narrowed(const std::string& label, const Numbers& numbers) const {
        std::string bytes(std::size_t(numbers.size()) * sizeof(Narrow), '\0');
        char* to = bytes.data();
        for (const auto each : numbers) {
            const auto narrow = static_cast<Narrow>(each);
            if constexpr (std::is_integral_v<Narrow>) {
                if (static_cast<std::remove_cvref_t<decltype(each)>>(narrow) != each)
                    refuse(label, "has the number " + std::to_string(each) + ", which its type cannot hold");
            }
            std::memcpy(to, &narrow, sizeof(narrow));
            to += sizeof(narrow);
        }
        return bytes;
    }

    std::string numbers_of(const std::string& label, const onnx::TensorProto& from, io::dtype type) const {
        using enum io::dtype;
        switch (type) {
            case f32: return narrowed<float>(label, from.float_data());
            case f64: return narrowed<double>(label, from.double_data());
            case i8: return narrowed<std::int8_t>(label, from.int32_data());
            case i16: return narrowed<std::int16_t>(label, from.int32_data());
            case i32: return narrowed<std::int32_t>(label, from.int32_data());
            case i64: return narrowed<std::int64_t>(label, from.int64_data());
            case u8:
            case boolean: return narrowed<std::uint8_t>(label, from.int32_data());
            case f16:
            case bf16:
            case u16: return narrowed<std::uint16_t>(label, from.int32_data());
            case u32: return narrowed<std::uint32_t>(label, from.uint64_data());
            case u64: return narrowed<std::uint64_t>(label, from.uint64_data());
        }
        refuse(label, "has no type");
    }

    // Takes the bytes out of `from`.
    constant read(onnx::TensorProto& from, const std::string& label) const {
        require_known(label, from);
        if (from.has_segment()) refuse(label, "is a segment of a tensor, which is not supported");
        constant made{.type = type_of(label, from.data_type()), .shape = {}, .bytes = {}};
        for (const std::int64_t each : from.dims()) {
            if (each < 0) refuse(label, "has a negative dimension");
            made.shape.push_back(std::size_t(each));
        }
        const std::optional<std::size_t> size = io::byte_count(made.shape, made.type);
        if (!size) refuse(label, "has more elements than memory has addresses");

        const int numbers = from.float_data_size() + from.int32_data_size() + from.int64_data_size() +
                            from.double_data_size() + from.uint64_data_size() + from.string_data_size();
        std::string bytes;
        if (from.data_location() != 0 || from.external_data_size() != 0) {
            if (from.data_location() != 1) refuse(label, "does not say whether its data is in the file or outside");
            if (numbers != 0 || from.has_raw_data()) refuse(label, "has data in the file and outside");
            bytes = external_.read(label, from, *size);
        } else if (from.has_raw_data()) {
            if (numbers != 0) refuse(label, "has its data twice");
            bytes = std::move(*from.mutable_raw_data());
        } else {
            bytes = numbers_of(label, from, made.type);
            if (std::size_t(numbers) * io::size_of(made.type) != bytes.size())
                refuse(label, "has numbers in a field that is not its type's");
        }
        if (bytes.size() != *size) {
            refuse(label, "has " + std::to_string(bytes.size()) + " bytes of data; its type and shape need " +
                              std::to_string(*size));
        }
        made.bytes = std::make_shared<const std::string>(std::move(bytes));
        return made;
    }

    attribute read(onnx::AttributeProto& from, const std::string& label) const {
        require_known(label, from);
        if (from.has_ref_attr_name()) refuse(label, "refers to an attribute of a function, and is in none");
        // Not whether the type's own field is there: some writers leave out zeros and empty lists.
        const std::array<bool, 9> filled = {false,
                                            from.has_f(),
                                            from.has_i(),
                                            from.has_s(),
                                            from.has_t(),
                                            from.has_g(),
                                            from.floats_size() != 0,
                                            from.ints_size() != 0,
                                            from.strings_size() != 0};
        for (std::size_t kind = 1; kind < filled.size(); ++kind) {
            if (filled[kind] && from.type() < std::int32_t(filled.size()) && std::size_t(from.type()) != kind)
                refuse(label, "has a value of the kind " + std::string(attribute_kinds[kind]) + ", and another type");
        }
        switch (from.type()) {
            case attribute_kind::f: return from.f();
            case attribute_kind::i: return std::int64_t(from.i());
            case attribute_kind::s: return from.s();
            case attribute_kind::t: return read(*from.mutable_t(), label);
            case attribute_kind::g: return std::make_shared<const graph>(read(*from.mutable_g(), true));
            case attribute_kind::floats: return std::vector<float>(from.floats().begin(), from.floats().end());
            case attribute_kind::ints: return std::vector<std::int64_t>(from.ints().begin(), from.ints().end());
            case attribute_kind::strings: return std::vector<std::string>(from.strings().begin(), from.strings().end());
            default: break;
        }
        const auto kind = std::size_t(std::uint32_t(from.type()));
        refuse(label,
               "is of the kind " +
                   (kind < attribute_kinds.size() ? std::string(attribute_kinds[kind]) : std::to_string(from.type())) +
                   ", which is not supported");
    }

    node read(onnx::NodeProto& from, std::size_t position) const {
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

    graph read(onnx::GraphProto& from, bool is_inner) const {
        require_known("graph " + in_quotes(from.name()), from);
        graph made;
        made.name = from.name();
        if (from.sparse_initializer_size() != 0) refuse("sparse_initializer", "sparse tensors are not supported");
        for (onnx::TensorProto& each : *from.mutable_initializer()) {
            constant value = read(each, "constant " + in_quotes(each.name()));
            if (!made.constants.emplace(each.name(), std::move(value)).second)
                refuse("constant " + in_quotes(each.name()), "is there twice");
        }
        for (const onnx::ValueInfoProto& each : from.input()) {
            if (!made.constants.contains(each.name())) made.inputs.push_back(read(each, "input", is_inner));
        }
        made.nodes.reserve(std::size_t(from.node_size()));
        for (onnx::NodeProto& each : *from.mutable_node()) made.nodes.push_back(read(each, made.nodes.size()));
        if (const node* const taker = detail::taker_of_maps(made); taker != nullptr) {
            refuse(label_of(*taker, std::size_t(taker - made.nodes.data())),
                   "takes the maps of a ZipMap, which are supported as outputs of the network only");
        }
        for (const onnx::ValueInfoProto& each : from.output()) {
            const bool is_sequence = each.type().value_case() == onnx::TypeProto::kSequenceType;
            std::optional<value_info> scores;
            if (is_sequence && !is_inner) scores = detail::zipped_output(made, each.name());
            made.outputs.push_back(scores ? *std::move(scores) : read(each, "output", is_inner));
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
    mutable detail::external_data external_;  // notes the files that it has read
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
