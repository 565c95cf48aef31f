// SPDX-License-Identifier: Apache-2.0
// Networks from ONNX files, as PyTorch, scikit-learn (skl2onnx) and TensorFlow (tf2onnx) export them.
//
// Needs protobuf when Sluice is built; onnx_supported says whether it was there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "sluice/nn/model.hpp"
#include "sluice/nn/own_operator.hpp"

namespace sluice::nn {

bool onnx_supported() noexcept;  // whether Sluice was built with protobuf; costs O(1)

// The operator sets of ONNX's own domain that are known.
inline constexpr std::int64_t oldest_onnx_opset = 6;
inline constexpr std::int64_t newest_onnx_opset = 28;  // of the last version of the standard that is known

// Where links to external data may lead: caches of model hubs keep files in one store, and link them into a folder for
// each model. The name of the data is in the model's folder in either case.
enum class data_links {
    stay_in_folder,  // a link that leads out of the model's folder is refused
    lead_anywhere,   // it is followed: for folders whose links the caller trusts
};

// Reads the file, and files next to it that it names (external data), checks them whole, and closes them. An input that
// the file also gives as a constant is a constant here. Nodes that call functions of the file become the functions'
// nodes, unless `own` has the operator: then the function is not used. The host's memory holds the constants once.
// Costs O(bytes of the file and of its external data), and the nodes that calls of functions become.
//
// Throws file_error that names the file and the node, value or field: when it is no ONNX model, is damaged or cut off,
// of an unknown version, or has what Sluice does not know: other types than dtype has, sequences, maps, sparse or text
// tensors, fields of a newer standard; when a constant's size is not its shape's; when external data is
// outside the model's folder, by name or by a link that `links` does not allow, or shorter than named; and when
// nn::check throws. error (errc::unsupported) when Sluice was built without protobuf.
model load_onnx(const std::filesystem::path& path, const own_operators& own = {},
                data_links links = data_links::stay_in_folder);

// The same from memory; `path` is for messages, and its folder is where external data is looked for.
model read_onnx(std::span<const std::byte> file, const std::filesystem::path& path, const own_operators& own = {},
                data_links links = data_links::stay_in_folder);

// The other files that the network keeps constants in (external data), each once. Throws and costs what load_onnx does.
std::vector<std::filesystem::path> load_onnx_data_files(const std::filesystem::path& path);

// What the exporter noted in the file next to the network (metadata_props): keys and values in the file's order; a key
// may be there twice. Throws as load_onnx, but looks at nothing else. Costs O(bytes of the file).
std::vector<std::pair<std::string, std::string>> load_onnx_metadata(const std::filesystem::path& path);

}  // namespace sluice::nn
