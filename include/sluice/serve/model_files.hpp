// SPDX-License-Identifier: Apache-2.0
// model_files: where the files of a model are; and model_source, which finds them: in a repository, or files by name.
//
// A repository is a folder. A model NAME is NAME/VERSION/model.onnx, with versions 1, 2, ..., or NAME/model.onnx, which
// is version 1; model.safetensors takes the place of model.onnx. NAME/config.json, NAME/config.yaml or Triton's
// NAME/config.pbtxt may say how it is served.
//
// A name has 1 to 128 letters, digits, '.', '_' and '-', and begins with a letter or a digit. Nothing outside of the
// repository is read: a link that leads out of it is refused, unless links are followed.
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/serve/model_config.hpp"

namespace sluice::serve {

// One version of a model.
struct model_version {
    std::string name;            // of the model
    std::size_t version = 1;     // from 1
    std::filesystem::path file;  // .onnx or .safetensors
};

struct model_files {
    std::string name;                     // of the model
    std::vector<model_version> versions;  // ascending, not empty
    std::filesystem::path config;         // empty: there is none
};

// How the model is served: what its file says, or the defaults. Throws what read_model_config throws, and file_error
// where the file names another model. Costs what
// read_model_config costs.
model_config config_of(const model_files& files);

// Whether the name may be that of a model. Costs O(1): names have at most 128 bytes.
bool is_model_name(std::string_view name) noexcept;

// Where models are looked for.
class model_source {
public:
    // With `follow_links` a link may lead out of the folder: caches of model hubs keep files in one store, and link
    // them into a folder for each model. Throws file_error when the folder does not exist. Costs a few calls of the
    // system.
    static model_source repository(const std::filesystem::path& folder, bool follow_links = false);
    // Words PATH or NAME=PATH; without a name it is the file's, without its ending. Throws errc::invalid_argument for a
    // name that is not allowed or is there twice, file_error for a file that does not exist. Costs a question to the
    // system for each word.
    static model_source files(const std::vector<std::string>& words);

    // Whether the models are in a repository; else they are files by name. Costs O(1).
    bool is_repository() const noexcept { return !folder_.empty(); }
    const std::filesystem::path& folder() const noexcept { return folder_; }  // of the repository, or empty; costs O(1)
    bool follows_links() const noexcept { return follows_links_; }            // out of the folder; costs O(1)
    // All names, sorted; in a repository those of the folders that are there now. Costs, in a repository, a read of the
    // folder and a question to the system for each entry; O(n log n) for the order of n names.
    std::vector<std::string> names() const;
    // Whether there is a model of this name. Costs at most a question to the system, and O(log files).
    bool has(std::string_view name) const;
    // Looks into the folder now. Throws file_error for a model without a version, with two files in one version, with
    // two configurations, with a file of another name or with a link that leads out of the repository;
    // errc::invalid_argument for an unknown name. Costs, in a repository, reads of the model's folder and of those of
    // its versions.
    model_files find(std::string_view name) const;
    // Whether the configuration of this model, or of any of them, says `resident`. What is wrong with files is no error
    // here. Costs what find and config_of cost, for each model that it looks at.
    bool wants_resident(std::string_view name) const;
    bool wants_resident() const;

private:
    std::filesystem::path folder_;  // absolute; may be a link, which may lead to another folder later
    bool follows_links_ = false;
    std::map<std::string, std::filesystem::path, std::less<>> files_;
};

}  // namespace sluice::serve
