// The case runner's own rules: what a broken file is, what agrees, and that nothing in a case is ignored silently.
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "case_runner/compare.hpp"
#include "case_runner/run_case.hpp"
#include "case_runner/safetensors.hpp"
#include "catch_compat.hpp"

using namespace headwise::cases;
using catch_compat::contains_substring;

namespace {

/// A file with this header and `data_bytes` bytes of 1.
std::vector<std::byte> file_of(const std::string& header, std::size_t data_bytes)
{
    std::vector<std::byte> file;
    for (std::size_t i = 0; i < 8; ++i) file.push_back(static_cast<std::byte>((header.size() >> (8 * i)) & 0xff));
    for (const char c : header) file.push_back(static_cast<std::byte>(c));
    file.resize(file.size() + data_bytes, std::byte{1});
    return file;
}

std::string entry(const std::string& name, const std::string& type, const std::string& shape,
                  const std::string& offsets)
{
    return "\"" + name + "\":{\"dtype\":\"" + type + "\",\"shape\":" + shape + ",\"data_offsets\":" + offsets + "}";
}

Tensor floats(const std::vector<float>& numbers)
{
    return Tensor(DType::f32, {static_cast<std::int64_t>(numbers.size())}, std::as_bytes(std::span(numbers)));
}

/// A case of one query and one key, both 1 wide.
SafetensorsFile smallest_case()
{
    SafetensorsFile file;
    file.metadata = {{"op", "sdpa"}, {"rtol", "0"}, {"atol", "0"}};
    const float two = 2;
    for (const char* name : {"in.Q", "in.K", "in.V", "out.Y"})
        file.tensors.emplace(name, Tensor(DType::f32, {1, 1, 1, 1}, std::as_bytes(std::span(&two, 1))));
    return file;
}

Comparison run(const SafetensorsFile& file)
{
    const Case test(file);
    return compare_outputs(run_case(test, Implementation::reference), test);
}

}  // namespace

TEST_CASE("safetensors: tensors and metadata are read", "[case_runner]")
{
    const std::string header = "{\"__metadata__\":{\"op\":\"layer\"}," + entry("b", "I64", "[]", "[2,10]") + "," +
                               entry("a", "BOOL", "[2,1]", "[0,2]") + "," + entry("c", "F32", "[3,0]", "[10,10]") +
                               "} ";
    const SafetensorsFile file = parse_safetensors(file_of(header, 10));
    CHECK(file.metadata.at("op") == "layer");
    CHECK(file.tensors.at("a").shape() == std::vector<std::int64_t>{2, 1});
    CHECK(file.tensors.at("a").number(1) == 1);
    CHECK(file.tensors.at("b").size() == 1);
    CHECK(file.tensors.at("b").number(0) == static_cast<double>(0x0101010101010101));
    CHECK(file.tensors.at("c").size() == 0);
}

TEST_CASE("safetensors: a broken file is an error that says what is wrong", "[case_runner]")
{
    struct Broken {
        std::string header;
        std::size_t data_bytes;
        std::string message;
    };
    const std::vector<Broken> table{
        {"", 0, "not a JSON object"},
        {"[]", 0, "not a JSON object"},
        {"{\"a\":", 0, "not JSON"},
        {"{\"a\":1}", 0, "not an object"},
        {"{\"__metadata__\":{\"n\":1}}", 0, "not a string"},
        {"{\"__metadata__\":{\"n\":\"1\",\"n\":\"2\"}}", 0, "\"n\" twice"},
        {"{" + entry("a", "F32", "[1]", "[0,4]") + "," + entry("a", "F32", "[1]", "[0,4]") + "}", 4, "\"a\" twice"},
        {"{\"a\":{\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "has no dtype"},
        {"{" + entry("a", "F31", "[1]", "[0,4]") + "}", 4, "unknown dtype"},
        {"{" + entry("a", "F32", "1", "[0,4]") + "}", 4, "shape is not an array"},
        {"{" + entry("a", "F32", "[-1]", "[0,4]") + "}", 4, "0 or more"},
        {"{" + entry("a", "F32", "[1.5]", "[0,4]") + "}", 4, "0 or more"},
        {"{" + entry("a", "F32", "[4294967296,4294967296]", "[0,4]") + "}", 4, "overflows"},
        {"{" + entry("a", "F32", "[18446744073709551615]", "[0,4]") + "}", 4, "overflows"},
        {"{" + entry("a", "F32", "[2]", "[0,4]") + "}", 4, "4 bytes for F32 [2]"},
        {"{" + entry("a", "F32", "[1]", "[0,4,8]") + "}", 4, "not a pair"},
        {"{" + entry("a", "F32", "[1]", "[4,0]") + "}", 4, "do not lie in"},
        {"{" + entry("a", "F32", "[2]", "[0,8]") + "}", 4, "do not lie in"},
        {"{" + entry("a", "F32", "[1]", "[0,4]") + "," + entry("b", "F32", "[1]", "[0,4]") + "}", 4, "expected 4"},
        {"{" + entry("a", "F32", "[1]", "[4,8]") + "}", 8, "expected 0"},
        {"{" + entry("a", "F32", "[1]", "[0,4]") + "}", 6, "belong to no tensor"},
        {"{" + entry("a", "BOOL", "[1]", "[0,1]") + "," + entry("b", "F32", "[]", "[1,4]") + "}", 4, "3 bytes"},
    };
    for (const Broken& broken : table) {
        INFO(broken.header);
        CHECK_THROWS_WITH(parse_safetensors(file_of(broken.header, broken.data_bytes)),
                          contains_substring(broken.message));
    }

    std::vector<std::byte> file = file_of("{" + entry("a", "BOOL", "[1]", "[0,1]") + "}", 1);
    file.back() = std::byte{2};
    CHECK_THROWS_WITH(parse_safetensors(file), contains_substring("neither 0 nor 1"));
    CHECK_THROWS_WITH(parse_safetensors(std::span(file).first(7)), contains_substring("has 7 bytes"));
    CHECK_THROWS_WITH(parse_safetensors(std::span(file).first(20)), contains_substring("does not fit"));
    file[7] = std::byte{0xff};
    CHECK_THROWS_WITH(parse_safetensors(file), contains_substring("does not fit"));
    CHECK_THROWS_AS(load_safetensors("no/such/file"), FormatError);
}

TEST_CASE("compare: the tolerance, infinities and NaN", "[case_runner]")
{
    constexpr float inf = std::numeric_limits<float>::infinity();
    constexpr float nan = std::numeric_limits<float>::quiet_NaN();
    const auto agree = [](float got, float want, Tolerance tolerance) {
        return compare_output("Y", floats({got}), floats({want}), tolerance).failure.empty();
    };
    CHECK(agree(1.25f, 1, {0.25, 0}));
    CHECK(agree(1.25f, 1, {0, 0.25}));
    CHECK(agree(1.5f, 1, {0.25, 0.25}));
    CHECK_FALSE(agree(1.25f, 1, {0.125, 0}));
    CHECK_FALSE(agree(1, 1.25f, {0.125, 0.0625}));
    CHECK(agree(inf, inf, {0, 0}));
    CHECK(agree(-inf, -inf, {0, 0}));
    CHECK_FALSE(agree(inf, -inf, {1, 1}));
    CHECK_FALSE(agree(0, -inf, {1, 1}));
    CHECK_FALSE(agree(inf, 0, {1, 1}));
    CHECK_FALSE(agree(nan, 0, {1, 1}));
    CHECK_FALSE(agree(nan, nan, {1, 1}));

    const Comparison worst = compare_output("Y", floats({1, 2, 9, 4}), floats({1, 1, 1, 4}), {0, 0.5});
    CHECK(worst.max_error == 8);
    CHECK_THAT(worst.failure, contains_substring("out.Y[2]: got 9, want 1; 2 of 4"));
    CHECK_THAT(compare_output("Y", floats({1}), floats({1, 1}), {1, 1}).failure, contains_substring("shape [1]"));
    CHECK_FALSE(compare_output("Y", Tensor(DType::f16, {1}), floats({0}), {1, 1}).failure.empty());
}

TEST_CASE("case: a value that is right passes, one that is wrong does not", "[case_runner]")
{
    SafetensorsFile file = smallest_case();
    CHECK(run(file).failure.empty());
    file.tensors.at("out.Y").data<float>()[0] = 3;
    CHECK_THAT(run(file).failure, contains_substring("out.Y[0, 0, 0, 0]: got 2, want 3"));
}

TEST_CASE("case: what the runner does not know is named, not ignored", "[case_runner]")
{
    SafetensorsFile file = smallest_case();
    file.metadata["attr.colour"] = "0";
    CHECK_THROWS_AS(run(file), NotSupported);
    CHECK_THROWS_WITH(run(file), "attr.colour");

    file = smallest_case();
    file.tensors.emplace("in.colour", floats({1}));
    CHECK_THROWS_WITH(run(file), "in.colour");

    file = smallest_case();
    file.tensors.emplace("out.colour", floats({1}));
    CHECK_THROWS_WITH(run(file), "out.colour");

    file = smallest_case();
    file.tensors.emplace("in.dY", floats({1}));
    CHECK_THROWS_WITH(run(file), "in.dY");
    file.tensors.emplace("out.dQ", floats({1}));
    CHECK(run(file).failure.empty());
    file.tensors.erase("out.Y");
    CHECK_THROWS_WITH(run(file), "gradients");

    file = smallest_case();
    file.metadata["op"] = "colour";
    CHECK_THROWS_WITH(run(file), "op colour");
}

TEST_CASE("case: contradictions are failures", "[case_runner]")
{
    const auto with = [](const std::string& key, const std::string& text) {
        SafetensorsFile file = smallest_case();
        file.metadata[key] = text;
        return file;
    };
    CHECK_THROWS_AS(run(with("attr.is_causal", "yes")), BadCase);
    CHECK_THROWS_AS(run(with("attr.is_causal", "2")), BadCase);
    CHECK_THROWS_AS(run(with("attr.scale", "1.0 ")), BadCase);
    CHECK_THROWS_AS(run(with("attr.q_num_heads", "2")), BadCase);
    CHECK_THROWS_AS(run(with("attr.qk_matmul_output_mode", "4")), BadCase);
    CHECK_THROWS_AS(run(with("rtol", "nan")), BadCase);
    CHECK_THROWS_AS(run(with("atol", "inf")), BadCase);
    CHECK_THROWS_AS(run(with("atol", "-1")), BadCase);

    SafetensorsFile file = smallest_case();
    file.tensors.at("in.K") = Tensor(DType::f32, {1, 1, 1, 2});
    CHECK_THROWS_AS(run(file), BadCase);
    file = smallest_case();
    file.tensors.emplace("in.past_key", Tensor(DType::f32, {1, 1, 1, 1}));
    CHECK_THROWS_AS(run(file), BadCase);
    file = smallest_case();
    file.tensors.emplace("in.attn_mask", Tensor(DType::f32, {3}));
    CHECK_THROWS_AS(run(file), BadCase);
    file = smallest_case();
    const std::int64_t length = 2;
    file.tensors.emplace("in.nonpad_kv_seqlen", Tensor(DType::i64, {1}, std::as_bytes(std::span(&length, 1))));
    CHECK_THROWS_AS(run(file), BadCase);
}
