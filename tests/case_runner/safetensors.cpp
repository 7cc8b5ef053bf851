// The safetensors reader. The format: https://github.com/huggingface/safetensors#format
#include "safetensors.hpp"

#include <algorithm>
#include <fstream>
#include <optional>
#include <set>
#include <utility>

#include <nlohmann/json.hpp>

namespace headwise::cases {

namespace {

using nlohmann::json;

constexpr std::size_t length_bytes = 8;
constexpr std::uint64_t longest_header = 100'000'000;  // the limit of the format's own reader
constexpr const char* metadata_key = "__metadata__";

struct Extent {
    std::uint64_t begin;
    std::uint64_t end;
    std::string name;
};

std::optional<DType> dtype_from_name(std::string_view text)
{
    for (int i = 0; i <= static_cast<int>(DType::f64); ++i)
        if (name(static_cast<DType>(i)) == text) return static_cast<DType>(i);
    return std::nullopt;
}

/// Parses the header; nlohmann::json itself keeps the last of two values with one name.
json parse_header(std::string_view text)
{
    if (text.empty() || text.front() != '{') throw FormatError("the header is not a JSON object");
    std::map<int, std::set<std::string>> names;  // by depth
    const auto see = [&names](int depth, json::parse_event_t event, json& parsed) {
        if (event == json::parse_event_t::object_start) names[depth + 1].clear();
        if (event == json::parse_event_t::key && !names[depth].insert(parsed.get<std::string>()).second)
            throw FormatError("the header has the name \"" + parsed.get<std::string>() + "\" twice");
        return true;
    };
    try {
        return json::parse(text.begin(), text.end(), see);
    } catch (const json::exception& error) {
        throw FormatError(std::string("the header is not JSON: ") + error.what());
    }
}

std::map<std::string, std::string> parse_metadata(const json& entry)
{
    if (!entry.is_object()) throw FormatError("__metadata__ is not an object");
    std::map<std::string, std::string> metadata;
    for (const auto& [key, value] : entry.items()) {
        if (!value.is_string()) throw FormatError("__metadata__ \"" + key + "\" is not a string");
        metadata.emplace(key, value.get<std::string>());
    }
    return metadata;
}

const json& field(const json& entry, const char* key, const std::string& tensor)
{
    const auto found = entry.find(key);
    if (found == entry.end()) throw FormatError("tensor \"" + tensor + "\" has no " + key);
    return *found;
}

std::uint64_t unsigned_number(const json& value, const std::string& what)
{
    if (!value.is_number_unsigned()) throw FormatError(what + " is not a number of 0 or more");
    return value.get<std::uint64_t>();
}

std::vector<std::int64_t> parse_shape(const json& value, const std::string& tensor)
{
    if (!value.is_array()) throw FormatError("tensor \"" + tensor + "\": shape is not an array");
    std::vector<std::int64_t> shape;
    for (const json& extent : value) {
        const std::uint64_t number = unsigned_number(extent, "tensor \"" + tensor + "\": shape");
        if (!std::in_range<std::int64_t>(number)) throw FormatError("tensor \"" + tensor + "\": shape overflows");
        shape.push_back(static_cast<std::int64_t>(number));
    }
    return shape;
}

/// The bytes that a tensor of this shape takes.
std::uint64_t bytes_needed(const std::vector<std::int64_t>& shape, DType type, const std::string& tensor)
{
    std::int64_t product = static_cast<std::int64_t>(bytes_of(type));
    for (const std::int64_t extent : shape)
        if (__builtin_mul_overflow(product, extent, &product))
            throw FormatError("tensor \"" + tensor + "\": shape " + describe(shape) + " overflows");
    return static_cast<std::uint64_t>(product);
}

Extent parse_offsets(const json& value, const std::string& tensor, std::uint64_t data_size)
{
    const std::string what = "tensor \"" + tensor + "\": data_offsets";
    if (!value.is_array() || value.size() != 2) throw FormatError(what + " is not a pair");
    const Extent extent{unsigned_number(value[0], what), unsigned_number(value[1], what), tensor};
    if (extent.begin > extent.end || extent.end > data_size)
        throw FormatError(what + " [" + std::to_string(extent.begin) + ", " + std::to_string(extent.end) +
                          "] do not lie in the " + std::to_string(data_size) + " bytes of data");
    return extent;
}

void check_booleans(const Tensor& tensor, const std::string& name)
{
    // Read as bytes: a bool that is neither 0 nor 1 must not even be looked at.
    const auto* bytes = tensor.data<std::uint8_t>();
    if (std::any_of(bytes, bytes + tensor.size(), [](std::uint8_t byte) { return byte > 1; }))
        throw FormatError("tensor \"" + name + "\": a BOOL that is neither 0 nor 1");
}

/// The tensor of one header entry; adds its place in the data to `extents`.
Tensor parse_tensor(const std::string& key, const json& entry, std::span<const std::byte> data,
                    std::vector<Extent>& extents)
{
    if (!entry.is_object()) throw FormatError("tensor \"" + key + "\" is not an object");
    const json& dtype = field(entry, "dtype", key);
    const auto type = dtype.is_string() ? dtype_from_name(dtype.get<std::string>()) : std::nullopt;
    if (!type) throw FormatError("tensor \"" + key + "\": unknown dtype " + dtype.dump());
    const auto shape = parse_shape(field(entry, "shape", key), key);
    const Extent extent = parse_offsets(field(entry, "data_offsets", key), key, data.size());
    const std::uint64_t size = extent.end - extent.begin;
    if (bytes_needed(shape, *type, key) != size)
        throw FormatError("tensor \"" + key + "\": " + std::to_string(size) + " bytes for " + std::string(name(*type)) +
                          " " + describe(shape));
    const Tensor tensor(*type, shape,
                        data.subspan(static_cast<std::size_t>(extent.begin), static_cast<std::size_t>(size)));
    if (*type == DType::boolean) check_booleans(tensor, key);
    extents.push_back(extent);
    return tensor;
}

/// The format allows neither shared bytes nor bytes that belong to no tensor.
void check_coverage(std::vector<Extent> extents, std::uint64_t data_size)
{
    std::sort(extents.begin(), extents.end(),
              [](const Extent& a, const Extent& b) { return std::pair(a.begin, a.end) < std::pair(b.begin, b.end); });
    std::uint64_t covered = 0;
    for (const Extent& extent : extents) {
        if (extent.begin != covered)
            throw FormatError("tensor \"" + extent.name + "\" begins at byte " + std::to_string(extent.begin) +
                              ", expected " + std::to_string(covered));
        covered = extent.end;
    }
    if (covered != data_size)
        throw FormatError(std::to_string(data_size - covered) + " bytes at the end belong to no tensor");
}

}  // namespace

SafetensorsFile parse_safetensors(std::span<const std::byte> file)
{
    if (file.size() < length_bytes)
        throw FormatError("the file has " + std::to_string(file.size()) + " bytes; its header length alone has 8");
    std::uint64_t header_size = 0;
    for (std::size_t i = 0; i < length_bytes; ++i) header_size |= std::to_integer<std::uint64_t>(file[i]) << (8 * i);
    if (header_size > longest_header || header_size > file.size() - length_bytes)
        throw FormatError("a header of " + std::to_string(header_size) + " bytes does not fit the file's " +
                          std::to_string(file.size()));

    const auto header_bytes = file.subspan(length_bytes, static_cast<std::size_t>(header_size));
    const auto data = file.subspan(length_bytes + static_cast<std::size_t>(header_size));
    const json header = parse_header({reinterpret_cast<const char*>(header_bytes.data()), header_bytes.size()});

    SafetensorsFile result;
    std::vector<Extent> extents;
    for (const auto& [key, entry] : header.items()) {
        if (key == metadata_key) result.metadata = parse_metadata(entry);
        else result.tensors.emplace(key, parse_tensor(key, entry, data, extents));
    }
    check_coverage(std::move(extents), data.size());
    return result;
}

SafetensorsFile load_safetensors(const std::filesystem::path& path)
{
    std::ifstream stream(path, std::ios::binary | std::ios::ate);
    if (!stream) throw FormatError("cannot open " + path.string());
    const std::streamoff size = stream.tellg();
    if (size < 0) throw FormatError("cannot read " + path.string());
    std::vector<std::byte> bytes(static_cast<std::size_t>(size));
    stream.seekg(0);
    stream.read(reinterpret_cast<char*>(bytes.data()), size);
    if (stream.gcount() != size) throw FormatError("cannot read " + path.string());
    return parse_safetensors(bytes);
}

}  // namespace headwise::cases
