// SPDX-License-Identifier: Apache-2.0
#include "sluice/serve/model_files.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "io/support/temporary_directory.hpp"
#include "sluice/base/file_error.hpp"

namespace sluice::serve::model_files_tests {
namespace {

namespace fs = std::filesystem;
using io::testing::temporary_directory;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// The repository lies in a folder of its own, so that something can be outside of it.
class model_repository : public ::testing::Test {
protected:
    model_repository() { fs::create_directories(root); }

    void add(const std::string& path) {
        fs::create_directories((root / path).parent_path());
        std::ofstream(root / path) << "x";
    }
    std::string failure_of(const std::string& name) {
        try {
            model_source::repository(root).find(name);
        } catch (const error& failure) {
            return failure.what();
        }
        return "found";
    }

    temporary_directory folder;
    fs::path root = fs::path(folder / "repository");
};

TEST_F(model_repository, has_versions_and_models_without) {
    add("digits/1/model.onnx");
    add("digits/10/model.onnx");
    add("digits/2/model.safetensors");
    add("digits/config.json");
    add("digits/notes/readme.txt");
    add("plain/model.onnx");
    add(".hidden/model.onnx");
    const model_source source = model_source::repository(root);
    EXPECT_THAT(source.names(), ElementsAre("digits", "plain"));
    const model_files digits = source.find("digits");
    ASSERT_EQ(digits.versions.size(), 3U);
    EXPECT_EQ(digits.versions[0].version, 1U);
    EXPECT_EQ(digits.versions[1].version, 2U);
    EXPECT_EQ(digits.versions[1].file.filename(), "model.safetensors");
    EXPECT_EQ(digits.versions[2].version, 10U);
    EXPECT_EQ(digits.config.filename(), "config.json");
    EXPECT_EQ(source.find("plain").versions.front().version, 1U);
    EXPECT_TRUE(source.find("plain").config.empty());
}

TEST_F(model_repository, sees_what_was_added_later) {
    const model_source source = model_source::repository(root);
    EXPECT_FALSE(source.has("late"));
    add("late/1/model.onnx");
    EXPECT_TRUE(source.has("late"));
    EXPECT_EQ(source.find("late").versions.size(), 1U);
}

TEST_F(model_repository, refuses_links_that_lead_out) {
    std::ofstream(folder / "secret.onnx") << "x";
    fs::create_directories(root / "file/1");
    fs::create_symlink(folder / "secret.onnx", root / "file/1/model.onnx");
    fs::create_directories(folder / "outside/1");
    std::ofstream(folder / "outside/1/model.onnx") << "x";
    fs::create_directory_symlink(folder / "outside", root / "folder");
    fs::create_directories(root / "version");
    fs::create_directory_symlink(folder / "outside/1", root / "version/1");
    add("config/model.onnx");
    fs::create_symlink(folder / "secret.onnx", root / "config/config.json");
    for (const char* const name : {"file", "folder", "version", "config"})
        EXPECT_THAT(failure_of(name),
                    ::testing::AllOf(HasSubstr("leads out of the repository"), HasSubstr("--follow-links")))
            << name;
}

// As caches of model hubs have them: the files are in one store, under other names.
TEST_F(model_repository, follows_links_that_lead_out_where_that_is_allowed) {
    fs::create_directories(folder / "blobs");
    std::ofstream(folder / "blobs/0a1b") << "x";
    std::ofstream(folder / "blobs/2c3d") << R"({"queue": 7})";
    fs::create_directories(root / "m/1");
    fs::create_symlink("../../../blobs/0a1b", root / "m/1/model.safetensors");
    fs::create_symlink("../../blobs/2c3d", root / "m/config.json");
    EXPECT_THAT(failure_of("m"), HasSubstr("leads out of the repository"));
    const model_files found = model_source::repository(root, true).find("m");
    ASSERT_EQ(found.versions.size(), 1U);
    EXPECT_EQ(found.versions[0].file.filename(), "model.safetensors");  // the ending says what the file is
    EXPECT_EQ(config_of(found).queue, 7U);
    fs::remove(folder / "blobs/0a1b");
    EXPECT_THROW(model_source::repository(root, true).find("m"), error);
}

TEST_F(model_repository, a_folder_whose_name_begins_like_the_repository_is_outside) {
    const std::string sibling = root.string() + "2";
    fs::create_directories(sibling);
    std::ofstream(sibling + "/model.onnx") << "x";
    fs::create_directories(root / "m");
    fs::create_symlink(sibling + "/model.onnx", root / "m/model.onnx");
    EXPECT_THAT(failure_of("m"), HasSubstr("leads out of the repository"));
}

TEST_F(model_repository, accepts_links_inside) {
    add("shared/model.onnx");
    fs::create_directories(root / "alias");
    fs::create_symlink("../shared/model.onnx", root / "alias/model.onnx");
    EXPECT_EQ(failure_of("alias"), "found");
}

TEST_F(model_repository, refuses_what_is_not_clear) {
    add("both/model.onnx");
    add("both/model.safetensors");
    add("mixed/model.onnx");
    add("mixed/1/model.onnx");
    add("empty/readme.txt");
    for (const char* const each : {"model.onnx", "config.json", "config.yaml"}) add(std::string("two/") + each);
    for (const char* const each : {"model.onnx", "config.yml"}) add(std::string("short/") + each);
    for (const char* const each : {"model.onnx", "config.yaml"}) add(std::string("yaml/") + each);
    fs::create_directories(root / "hollow/1");
    fs::create_directories(root / "directory/1/model.onnx");
    EXPECT_THAT(failure_of("both"), HasSubstr("both model.onnx and model.safetensors"));
    EXPECT_THAT(failure_of("two"), HasSubstr("both config.json and config.yaml"));
    EXPECT_THAT(failure_of("short"), HasSubstr("a configuration is config.json, config.yaml or config.pbtxt"));
    EXPECT_EQ(model_source::repository(root).find("yaml").config.filename(), "config.yaml");
    EXPECT_THAT(failure_of("mixed"), HasSubstr("both versions and a model next to them"));
    EXPECT_THAT(failure_of("empty"), HasSubstr("there is no model"));
    EXPECT_THAT(failure_of("hollow"), HasSubstr("a version has the file"));
    EXPECT_THAT(failure_of("directory"), HasSubstr("this is no file"));
    EXPECT_THAT(failure_of(".."), HasSubstr("there is no model '..'"));
    EXPECT_THAT(failure_of("a/b"), HasSubstr("there is no model"));
}

TEST_F(model_repository, that_does_not_exist_is_refused) {
    EXPECT_THROW(model_source::repository(folder / "nowhere"), file_error);
    std::ofstream(folder / "file") << "x";
    EXPECT_THROW(model_source::repository(folder / "file"), file_error);
}

TEST(model_names, have_letters_digits_and_few_signs) {
    for (const char* const good : {"a", "digits", "Bert-base_2.1", "7"}) EXPECT_TRUE(is_model_name(good)) << good;
    for (const char* const bad : {"", ".", "..", ".a", "a/b", "a b", "-a", "ä", "a\n", "stats"})
        EXPECT_FALSE(is_model_name(bad)) << bad;
    EXPECT_TRUE(is_model_name(std::string(128, 'a')));
    EXPECT_FALSE(is_model_name(std::string(129, 'a')));
}

TEST(model_words, give_files_and_names) {
    const temporary_directory folder;
    std::ofstream(folder / "digits.onnx") << "x";
    std::ofstream(folder / "my digits.onnx") << "x";
    const std::string digits = (folder / "digits.onnx").string(), spaced = (folder / "my digits.onnx").string();
    const model_source source = model_source::files({digits, "other=" + spaced});
    EXPECT_THAT(source.names(), ElementsAre("digits", "other"));
    EXPECT_FALSE(source.is_repository());
    EXPECT_EQ(source.find("other").versions.front().file, spaced);
    EXPECT_THROW(model_source::files({(folder / "gone.onnx").string()}), file_error);
    EXPECT_THROW(model_source::files({spaced}), error);
    EXPECT_THROW(model_source::files({digits, digits}), error);
}

}  // namespace
}  // namespace sluice::serve::model_files_tests
