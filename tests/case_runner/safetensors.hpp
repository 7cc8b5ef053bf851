// Reads files in the safetensors format: an 8-byte little-endian header length, a JSON header, raw tensors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <headwise/element.hpp>

namespace headwise::cases {

/// The element types a file may hold. Those narrower than a byte or packed are unknown here.
enum class DType { boolean, u8, i8, u16, i16, u32, i32, u64, i64, f16, bf16, f32, f64 };

/// "F32", as the format spells it.
std::string_view name(DType type) noexcept;
std::size_t bytes_of(DType type) noexcept;

template <class T>
struct DTypeOf;
template <>
struct DTypeOf<bool> {
    static constexpr DType value = DType::boolean;
};
template <>
struct DTypeOf<std::int32_t> {
    static constexpr DType value = DType::i32;
};
template <>
struct DTypeOf<std::int64_t> {
    static constexpr DType value = DType::i64;
};
template <>
struct DTypeOf<float16> {
    static constexpr DType value = DType::f16;
};
template <>
struct DTypeOf<bfloat16> {
    static constexpr DType value = DType::bf16;
};
template <>
struct DTypeOf<float> {
    static constexpr DType value = DType::f32;
};
template <>
struct DTypeOf<double> {
    static constexpr DType value = DType::f64;
};

/// A dense row-major tensor that owns its memory.
///
/// Each tensor has an allocation of its own, of exactly its size (one byte where it is empty, so that its address is
/// never null): memory checkers then see a read past its end.
class Tensor {
public:
    /// Throws std::length_error where `bytes` has another size than the shape asks for, or the shape overflows.
    Tensor(DType type, std::vector<std::int64_t> shape, std::span<const std::byte> bytes);
    /// Every byte is 0xff, which is NaN in each floating type: an element nobody wrote agrees with nothing.
    Tensor(DType type, std::vector<std::int64_t> shape);

    DType type() const noexcept { return type_; }
    const std::vector<std::int64_t>& shape() const noexcept { return shape_; }
    std::size_t rank() const noexcept { return shape_.size(); }
    std::int64_t size() const noexcept { return size_; }

    /// T must be the type that the tensor holds.
    template <class T>
    const T* data() const noexcept
    {
        return reinterpret_cast<const T*>(bytes_.data());
    }
    template <class T>
    T* data() noexcept
    {
        return reinterpret_cast<T*>(bytes_.data());
    }

    /// Element `index` in row-major order as a double; exact for all but 64-bit integers beyond 2^53.
    double number(std::int64_t index) const noexcept;

private:
    DType type_;
    std::vector<std::int64_t> shape_;
    std::int64_t size_;
    std::vector<std::byte> bytes_;
};

/// "F32 [2, 3, 4]"
std::string describe(const Tensor& tensor);
/// "[2, 3, 4]"
std::string describe(std::span<const std::int64_t> shape);

struct SafetensorsFile {
    std::map<std::string, std::string> metadata;
    std::map<std::string, Tensor> tensors;
};

/// The file breaks the format; the message says where and how.
struct FormatError : std::runtime_error {
    using std::runtime_error::runtime_error;
};

/// Parses a whole file's bytes.
///
/// Throws FormatError for a header that is cut short, too long or not the JSON object it should be, a name that occurs
/// twice, an unknown dtype, a shape that does not fit its bytes or overflows, offsets outside the data, and data that
/// tensors share or that none of them covers. BOOL elements other than 0 and 1 are an error too.
SafetensorsFile parse_safetensors(std::span<const std::byte> file);

/// Throws FormatError as parse_safetensors does, and where the file cannot be read.
SafetensorsFile load_safetensors(const std::filesystem::path& path);

}  // namespace headwise::cases
