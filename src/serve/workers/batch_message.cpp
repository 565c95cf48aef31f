// SPDX-License-Identifier: Apache-2.0
#include "serve/workers/batch_message.hpp"

#include <new>
#include <stdexcept>
#include <utility>

#include "serve/workers/packed.hpp"

namespace sluice::serve {
namespace {

// Of a head: a model has some inputs and outputs, with few dimensions each.
constexpr std::uint64_t longest_head = std::uint64_t{1} << 20;
constexpr std::size_t most_lengths = 64;

enum class message_kind : std::uint8_t { request, answer, failure };

// The length of the head, and the head.
void write_head(hatch_writer& to, const packed_writer& head) {
    const std::uint64_t bytes = head.bytes().size();
    to.write(std::as_bytes(std::span(&bytes, 1)));
    to.write(std::as_bytes(std::span(head.bytes())));
}

std::string read_head(hatch_reader& from) {
    std::uint64_t bytes = 0;
    from.read(std::as_writable_bytes(std::span(&bytes, 1)));
    if (bytes > longest_head) throw worker_damage("a message has a head that is too long");
    std::string head(static_cast<std::size_t>(bytes), '\0');
    from.read(std::as_writable_bytes(std::span(head)));
    return head;
}

void write_tensors(hatch& to, const hatch_wait& wait, packed_writer head, std::span<const nn::any_tensor> tensors) {
    head.put(static_cast<std::uint64_t>(tensors.size()));
    for (const nn::any_tensor& each : tensors) {
        head.put(static_cast<bool>(each));
        if (!each) continue;
        head.put(each.type());
        head.put(static_cast<std::uint64_t>(each.shape().size()));
        for (const std::size_t length : each.shape()) head.put(static_cast<std::uint64_t>(length));
    }
    hatch_writer writer(to, wait);
    write_head(writer, head);
    for (const nn::any_tensor& each : tensors) writer.write(each.bytes());
    writer.end();
}

// A type and a shape that memory can have; an input that is left out has none.
nn::any_tensor read_tensor_head(packed_reader& head, std::size_t& left) {
    if (!head.number<bool>()) return {};
    const auto type = head.one_of(io::dtype::boolean);
    std::vector<std::size_t> shape(head.count(sizeof(std::uint64_t)));
    if (shape.size() > most_lengths) throw worker_damage("a tensor has too many dimensions");
    for (std::size_t& each : shape) each = static_cast<std::size_t>(head.number<std::uint64_t>());
    const auto bytes = io::byte_count(shape, type);
    if (!bytes || *bytes > left) throw worker_damage("a tensor is longer than it may be");
    left -= *bytes;
    return nn::any_tensor::of_shape(type, std::move(shape));
}

constexpr std::size_t most_pieces_skipped = std::size_t{1} << 20;

std::vector<nn::any_tensor> read_tensors(hatch_reader& from, packed_reader& head, std::size_t most_bytes) {
    std::vector<nn::any_tensor> heads, tensors;
    for (std::size_t left = head.count(1), room = most_bytes; left != 0; --left)
        heads.push_back(read_tensor_head(head, room));
    head.require_end();
    tensors.reserve(heads.size());
    for (const nn::any_tensor& each : heads) {
        if (!each) {
            tensors.emplace_back();
            continue;
        }
        std::byte* to = nullptr;
        tensors.push_back(nn::any_tensor::make_on_host(each.type(), each.shape(), to));
        from.read({to, tensors.back().size_bytes()});
    }
    from.require_end();
    return tensors;
}

batch_answer read_answer(hatch_reader& from, std::size_t most_bytes) {
    const std::string bytes = read_head(from);
    packed_reader head(bytes);
    switch (head.one_of(message_kind::failure)) {
        case message_kind::answer: return read_tensors(from, head, most_bytes);
        case message_kind::failure: {
            std::string failure = head.text();
            head.require_end();
            from.require_end();
            return failure;
        }
        case message_kind::request: break;
    }
    throw worker_damage("a message is no answer");
}

batch_request read_request(hatch_reader& from, std::size_t most_bytes) {
    const std::string bytes = read_head(from);
    packed_reader head(bytes);
    if (head.one_of(message_kind::failure) != message_kind::request) throw worker_damage("a message is no request");
    const auto model = head.number<std::uint64_t>();
    return {model, read_tensors(from, head, most_bytes)};
}

// Where there is no memory for it, the message is taken all the same, so that the hatch is ready for the next one.
template <typename Read>
auto read_whole(hatch_reader from, const Read& read) {
    try {
        return read(from);
    } catch (const std::bad_alloc&) {
        from.skip(most_pieces_skipped);
        throw;
    } catch (const std::length_error&) {  // more than any container holds
        from.skip(most_pieces_skipped);
        throw std::bad_alloc();
    }
}

}  // namespace

void write_request(hatch& to, const hatch_wait& wait, std::uint64_t model, std::span<const nn::any_tensor> inputs) {
    packed_writer head;
    head.put(message_kind::request);
    head.put(model);
    write_tensors(to, wait, std::move(head), inputs);
}

void write_answer(hatch& to, const hatch_wait& wait, std::span<const nn::any_tensor> outputs) {
    packed_writer head;
    head.put(message_kind::answer);
    write_tensors(to, wait, std::move(head), outputs);
}

void write_failure(hatch& to, const hatch_wait& wait, std::string_view failure) {
    packed_writer head;
    head.put(message_kind::failure);
    head.put(failure);
    hatch_writer writer(to, wait);
    write_head(writer, head);
    writer.end();
}

batch_request read_request(hatch& from, hatch_piece first, const hatch_wait& wait, std::size_t most_bytes) {
    return read_whole({from, first, wait}, [&](hatch_reader& reader) { return read_request(reader, most_bytes); });
}

batch_answer read_answer(hatch& from, hatch_piece first, const hatch_wait& wait, std::size_t most_bytes) {
    return read_whole({from, first, wait}, [&](hatch_reader& reader) { return read_answer(reader, most_bytes); });
}

}  // namespace sluice::serve
