// SPDX-License-Identifier: Apache-2.0
#include "input_files.hpp"

#include <algorithm>
#include <cctype>
#include <cstring>
#include <sstream>
#include <system_error>
#include <utility>

#include "image_input.hpp"
#include "network_file.hpp"
#include "sluice/base/error.hpp"
#include "sluice/base/file_error.hpp"
#include "sluice/base/printable.hpp"
#include "sluice/io/npy.hpp"
#include "sluice/io/npy_texts.hpp"
#include "sluice/io/npz.hpp"
#include "sluice/nn/onnx.hpp"
#include "sluice/nn/text_codes.hpp"

namespace sluice::app {
namespace {

[[noreturn]] void refuse_input(const std::string& why) { throw error(errc::invalid_argument, why, {"run"}); }

std::string lower(std::string text) {
    std::ranges::transform(text, text.begin(), [](unsigned char each) { return char(std::tolower(each)); });
    return text;
}

nn::any_tensor tensor_of(const io::npy_view& view, const nn::value_info& as) {
    std::byte* to = nullptr;
    nn::any_tensor made = nn::any_tensor::make_on_host(as.type, view.shape(), to);
    if (view.element_type() == as.type) {
        if (!view.data().empty()) std::memcpy(to, view.data().data(), view.data().size());
    } else if (as.type == io::dtype::f32) {
        io::convert_to_float(view.element_type(), view.data(), {reinterpret_cast<float*>(to), made.elements()});
    } else {
        throw file_error(view.path(), file_error::no_offset, "descr",
                         "has elements of type " + std::string(io::to_string(view.element_type())) + "; the input " +
                             in_quotes(as.name) + " is " + std::string(io::to_string(as.type)));
    }
    return made;
}

nn::any_tensor read_texts(const input_source& source, const nn::value_info& as, const input_options& options) {
    if (source.kind != input_kind::npy) {
        refuse_input("the input " + in_quotes(as.name) +
                     " is text, which is read from .npy files: " + in_quotes(source.file.string()) + " is not one");
    }
    const io::npy_texts read = io::read_npy_texts(source.file);
    const std::vector<std::string_view> views(read.texts.begin(), read.texts.end());
    return nn::text_codes(options.texts).encode(views, read.shape);
}

nn::any_tensor read_npy(const std::filesystem::path& path, const nn::value_info& as) {
    const io::npy_file file(path);
    nn::any_tensor made = tensor_of(file.view(), as);
    file.file().require_unchanged();
    return made;
}

// The array that is named, else the only one, else the one with the input's name.
nn::any_tensor read_npz(const input_source& source, const nn::value_info& as) {
    const io::npz_file file(source.file);
    const std::vector<io::npz_member>& members = file.view().members();
    std::string name = source.member.value_or(members.size() == 1 ? members.front().name : as.name);
    if (!source.member && file.view().find(name) == nullptr) {
        std::string names;
        for (const io::npz_member& each : members) names += (names.empty() ? "" : ", ") + in_quotes(each.name);
        throw file_error(source.file, file_error::no_offset, "member",
                         members.empty() ? "there is no array in it"
                                         : "there are several arrays, and none is called " + in_quotes(as.name) +
                                               ": write FILE.npz:MEMBER, with one of " + names);
    }
    nn::any_tensor made = tensor_of(file.read(name).view(), as);
    file.file().require_unchanged();
    return made;
}

// The shape in which the network takes a table.
std::vector<std::size_t> shape_of(const io::csv_table& table, const std::filesystem::path& path,
                                  const nn::value_info& as) {
    if (!as.shape || as.shape->size() == 2) return {table.rows, table.columns};
    const auto refuse = [&](const std::string& why) {
        throw file_error(
            path, file_error::no_offset, "columns",
            "are " + std::to_string(table.columns) + "; the input " + in_quotes(as.name) + " takes " + why);
    };
    if (as.shape->empty()) refuse("a single number without dimensions, which no table is");
    std::vector<std::size_t> shape = {table.rows};
    std::size_t columns = 1;
    for (std::size_t i = 1; i < as.shape->size(); ++i) {
        const nn::dimension& each = (*as.shape)[i];
        if (!each.length) refuse(std::to_string(as.shape->size()) + " dimensions, not all of which are known");
        columns *= std::min(*each.length, table.columns + 1);  // it must not overflow
        shape.push_back(*each.length);
        if (columns > table.columns) break;
    }
    if (columns != table.columns) {
        const std::string lengths = nn::to_string(std::span(shape).subspan(1));
        refuse(as.shape->size() == 1 ? "one number a line" : "lines of " + lengths);
    }
    return shape;
}

nn::any_tensor read_table(const std::filesystem::path& path, const nn::value_info& as, const io::csv_options& options) {
    const io::csv_table table = io::read_csv(path, as.type, options);
    std::byte* to = nullptr;
    nn::any_tensor made = nn::any_tensor::make_on_host(as.type, shape_of(table, path, as), to);
    std::memcpy(to, table.bytes.data(), table.bytes.size());
    return made;
}

io::csv_options parse_csv_options(const std::string& words) {
    io::csv_options made;
    std::istringstream text(words);
    for (std::string word; text >> word;) {
        const std::size_t at = word.find('=');
        const std::string key = word.substr(0, at), value = at == std::string::npos ? "" : word.substr(at + 1);
        if (key == "header" && (value == "yes" || value == "no")) {
            made.header = value == "yes" ? io::csv_header::present : io::csv_header::absent;
        } else if (key == "separator" && (value == "tab" || value == "space")) {
            made.separator = value == "tab" ? '\t' : ' ';
        } else if (key == "separator" && value.size() == 1) {
            made.separator = value.front();
        } else {
            refuse_input("--csv: " + in_quotes(word) +
                         " is not known; known are header=yes, header=no, separator=C with a character, tab or space");
        }
    }
    return made;
}

}  // namespace

input_source source_of(const std::string& word) {
    constexpr std::string_view archive_end = ".npz:";
    std::error_code absent;
    if (const std::size_t at = lower(word).find(archive_end); at != std::string::npos) {
        if (std::filesystem::exists(word, absent)) {
            refuse_input(in_quotes(word) +
                         " means an array in an archive, and is the name of a file too: rename that file");
        }
        const std::size_t end = at + archive_end.size();
        if (end == word.size()) refuse_input(in_quotes(word) + ": the name of the array is empty");
        return {input_kind::npz, word.substr(0, end - 1), word.substr(end)};
    }
    const std::filesystem::path path(word);
    const std::string ending = lower(path.extension().string());
    if (is_image_name(path) || std::filesystem::is_directory(path, absent)) return {input_kind::images, path, {}};
    if (ending == ".npz") return {input_kind::npz, path, {}};
    if (ending == ".csv" || ending == ".tsv") return {input_kind::csv, path, {}};
    return {input_kind::npy, path, {}};
}

input_options parse_input_options(const run_options& options, const std::vector<input_source>& inputs) {
    const auto has = [&](input_kind kind) {
        return std::ranges::find(inputs, kind, &input_source::kind) != inputs.end();
    };
    if (!options.csv.empty() && !has(input_kind::csv))
        refuse_input("--csv is for inputs that are tables (FILE.csv, FILE.tsv)");
    if (!options.image.empty() && !has(input_kind::images))
        refuse_input("--image is for inputs that are pictures (FILE.png, FILE.jpg, or a folder of them)");
    input_options made;
    made.csv = parse_csv_options(options.csv);
    if (!has(input_kind::images)) return made;
    std::vector<std::pair<std::string, std::string>> metadata;
    if (is_onnx(options.model)) metadata = nn::load_onnx_metadata(options.model);
    made.images = parse_image_options(options.image, metadata);
    return made;
}

nn::any_tensor read_input(const input_source& source, const nn::value_info& as, const input_options& options) {
    if (as.is_text) return read_texts(source, as, options);
    switch (source.kind) {
        case input_kind::npy: return read_npy(source.file, as);
        case input_kind::npz: return read_npz(source, as);
        case input_kind::csv: return read_table(source.file, as, options.csv);
        case input_kind::images: return read_images(source.file, as, options.images);
    }
    return {};
}

nn::any_tensor read_plain_input(const std::filesystem::path& file, const nn::value_info& as) {
    const input_source source = source_of(file.string());
    if (as.is_text) {
        throw error(errc::invalid_argument,
                    "input " + in_quotes(as.name) + " is text; this command takes numbers only");
    }
    if (source.kind == input_kind::images) {
        throw error(errc::invalid_argument,
                    "input " + in_quotes(as.name) + ": " + in_quotes(file.string()) +
                        " is a picture; this command takes arrays and tables (.npy, .npz, .csv)");
    }
    return read_input(source, as, {});
}

}  // namespace sluice::app
