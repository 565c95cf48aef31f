// SPDX-License-Identifier: Apache-2.0
#include "serve/workers/failure_message.hpp"

#include <cstdint>
#include <new>
#include <stdexcept>
#include <utility>

#include "serve/workers/packed.hpp"
#include "sluice/base/file_error.hpp"
#include "sluice/nn/run_limit.hpp"
#include "sluice/serve/refusal.hpp"

namespace sluice::serve {
namespace {

enum class failure_kind : std::uint8_t {
    other,
    no_memory,  // std::bad_alloc
    refused,
    plain,  // error
    of_device,
    of_memory,  // out_of_memory
    of_file,
    too_large,  // nn::run_too_large
};

// The text is made where it was thrown.
template <typename Base>
class with_text final : public Base {
public:
    with_text(Base made, std::string text) : Base(std::move(made)), text_(std::move(text)) {}
    const char* what() const noexcept override { return text_.c_str(); }

private:
    std::string text_;
};

template <typename Base>
[[noreturn]] void throw_with(Base made, const std::string& text) {
    throw with_text<Base>(std::move(made), text);
}

failure_kind kind_of(const std::exception& failure) {
    const auto is = [&]<typename T>(const T*) { return dynamic_cast<const T*>(&failure) != nullptr; };
    if (is(static_cast<const refusal*>(nullptr))) return failure_kind::refused;
    if (is(static_cast<const nn::run_too_large*>(nullptr))) return failure_kind::too_large;
    if (is(static_cast<const file_error*>(nullptr))) return failure_kind::of_file;
    if (is(static_cast<const out_of_memory*>(nullptr))) return failure_kind::of_memory;
    if (is(static_cast<const device_error*>(nullptr))) return failure_kind::of_device;
    if (is(static_cast<const error*>(nullptr))) return failure_kind::plain;
    return is(static_cast<const std::bad_alloc*>(nullptr)) ? failure_kind::no_memory : failure_kind::other;
}

errc code_of(const error& failure) {
    return failure.code().category() == sluice_category() ? static_cast<errc>(failure.code().value()) : errc::io_failed;
}

void put_error(packed_writer& to, const error& failure) {
    to.put(code_of(failure));
    to.put(failure.operation());
    to.put(failure.device());
    if (const auto* const its = dynamic_cast<const file_error*>(&failure)) {
        to.put(its->path().native());
        to.put(its->offset());
        to.put(its->field());
    } else if (const auto* const memory = dynamic_cast<const out_of_memory*>(&failure)) {
        for (const std::size_t each : {memory->requested_bytes(), memory->free_bytes(), memory->total_bytes()})
            to.put(static_cast<std::uint64_t>(each));
    }
}

template <typename File>
[[noreturn]] void throw_file_error(packed_reader& from, errc code, const std::string& text) {
    std::string path = from.text();
    const auto offset = from.number<std::uint64_t>();
    const std::string field = from.text();
    throw_with(File(std::move(path), offset, field, text, code), text);
}

[[noreturn]] void throw_error(packed_reader& from, failure_kind kind, const std::string& text) {
    const auto number = from.number<std::underlying_type_t<errc>>();
    if (number < static_cast<int>(errc::invalid_argument) || number > static_cast<int>(errc::out_of_range))
        throw worker_damage("a message has a code that there is not");
    const auto code = static_cast<errc>(number);
    const std::string operation = from.text(), device = from.text();
    const error_context context{.operation = operation, .device = device};
    if (kind == failure_kind::of_file) throw_file_error<file_error>(from, code, text);
    if (kind == failure_kind::too_large) throw_file_error<nn::run_too_large>(from, code, text);
    if (kind == failure_kind::of_device) throw_with(device_error(code, text, context), text);
    if (kind == failure_kind::plain) throw_with(error(code, text, context), text);
    const auto asked = from.number<std::uint64_t>(), unused = from.number<std::uint64_t>();
    const auto total = from.number<std::uint64_t>();
    throw_with(out_of_memory(asked, unused, context, total), text);
}

}  // namespace

std::string packed_failure(const std::exception& failure) {
    packed_writer to;
    const failure_kind kind = kind_of(failure);
    to.put(kind);
    to.put(std::string_view(failure.what()));
    if (kind == failure_kind::refused) {
        const auto& its = static_cast<const refusal&>(failure);
        to.put(its.kind());
        to.put(static_cast<std::uint64_t>(its.waiting()));
    } else if (kind != failure_kind::no_memory && kind != failure_kind::other) {
        put_error(to, dynamic_cast<const error&>(failure));
    }
    return to.take();
}

void throw_failure(std::string_view bytes) {
    packed_reader from(bytes);
    const auto kind = from.one_of(failure_kind::too_large);
    const std::string text = from.text();
    if (kind == failure_kind::no_memory) throw std::bad_alloc();
    if (kind == failure_kind::other) throw std::runtime_error(text);
    if (kind != failure_kind::refused) throw_error(from, kind, text);
    const auto its = from.one_of(refusal_kind::too_large);
    throw refusal(its, text, static_cast<std::size_t>(from.number<std::uint64_t>()));
}

std::string text_of_failure(std::string_view bytes) {
    packed_reader from(bytes);
    from.one_of(failure_kind::too_large);
    return from.text();
}

}  // namespace sluice::serve
