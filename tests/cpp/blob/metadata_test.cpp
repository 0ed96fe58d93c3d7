#include "blob/metadata.h"

#include <string>

#include <gtest/gtest.h>

#include "tests/cpp/support/captured_log.h"

namespace executorch::backends::tensorrt {
namespace {

using executorch::runtime::Error;
using executorch::runtime::Result;
using testing::CapturedLog;

Result<Metadata> parse(const std::string& json) {
  // A copy without spare capacity, so that a sanitizer sees any read past the end.
  const std::vector<uint8_t> bytes(json.begin(), json.end());
  return parse_metadata(Bytes(bytes.data(), bytes.size()));
}

void expect_refused(const std::string& json, const std::string& sentence) {
  const CapturedLog log;
  EXPECT_EQ(parse(json).error(), Error::InvalidProgram) << json;
  ASSERT_EQ(log.errors().size(), 1u) << json << "\n" << log.text();
  EXPECT_EQ(log.errors()[0], "Blob metadata: " + sentence + " Export the model again.");
}

std::string with(const std::string& members) { return R"({"io_bindings":[],)" + members + "}"; }

std::string bindings(const std::string& entries) { return R"({"io_bindings":[)" + entries + "]}"; }

const char kInOut[] = R"("io_bindings":[{"name":"x","is_input":true},{"name":"w","is_input":true},)"
                      R"({"name":"y","is_input":false},{"name":"z"}])";

std::string aliases(const std::string& entries) {
  return std::string("{") + kInOut + R"(,"aliased_io":[)" + entries + "]}";
}

TEST(Metadata, ReadsEveryKey) {
  const auto metadata = parse(R"({
    "io_bindings": [
      {"name": "x", "dtype": "float16", "shape": [-1, 3, 0], "is_input": true, "profile": {"min": [1]}},
      {"name": "y", "dtype": "int64", "shape": [], "is_input": false}],
    "aliased_io": [{"output": "y", "input": "x"}],
    "hardware_compatible": true, "device_id": 3, "serialized_metadata": "anything", "target_platform": "linux_x86_64",
    "engine_sha256": "AB00000000000000000000000000000000000000000000000000000000000001",
    "tensorrt": {"flavor": "rtx", "version": "1.6.1.120", "more": [1]},
    "compute_capabilities": ["8.0", "9.0"], "layers": 62, "build_seconds": 0.13, "unknown": {"deep": [[]]}})");
  ASSERT_TRUE(metadata.ok());
  ASSERT_EQ(metadata->bindings.size(), 2u);
  EXPECT_TRUE(metadata->has_bindings);
  EXPECT_EQ(metadata->bindings[0].name, "x");
  EXPECT_EQ(metadata->bindings[0].dtype, "float16");
  EXPECT_EQ(metadata->bindings[0].shape, (std::vector<int64_t>{-1, 3, 0}));
  EXPECT_TRUE(metadata->bindings[0].is_input);
  EXPECT_FALSE(metadata->bindings[1].is_input);
  ASSERT_EQ(metadata->aliases.size(), 1u);
  EXPECT_EQ(metadata->aliases[0].output, "y");
  EXPECT_EQ(metadata->aliases[0].input, "x");
  EXPECT_EQ(metadata->aliases[0].kind, AliasKind::kKvCacheUpdate) << "the kind of an alias without one";
  EXPECT_TRUE(metadata->hardware_compatible);
  EXPECT_EQ(metadata->device_id, 3);
  EXPECT_EQ(metadata->target_platform, "linux_x86_64");
  EXPECT_EQ(metadata->engine_sha256, "ab00000000000000000000000000000000000000000000000000000000000001");
  EXPECT_EQ(metadata->tensorrt_flavor, EngineFlavor::kTensorRTRTX);
  EXPECT_EQ(metadata->tensorrt_version, "1.6.1.120");
  EXPECT_EQ(metadata->compute_capabilities, (std::vector<std::string>{"8.0", "9.0"}));
  EXPECT_EQ(metadata->layers, 62);
}

TEST(Metadata, HasDefaultsForEverythingButTheBindings) {
  const auto metadata = parse(R"({"io_bindings":[]})");
  ASSERT_TRUE(metadata.ok());
  EXPECT_FALSE(metadata->has_bindings);
  EXPECT_TRUE(metadata->aliases.empty());
  EXPECT_FALSE(metadata->hardware_compatible);
  EXPECT_EQ(metadata->device_id, 0);
  EXPECT_TRUE(metadata->engine_sha256.empty());
  EXPECT_EQ(metadata->tensorrt_flavor, EngineFlavor::kUnknown);
  EXPECT_FALSE(metadata->layers.has_value());
}

TEST(Metadata, TakesABindingWithoutDirectionAsAnOutput) {
  const auto metadata = parse(bindings(R"({"name":"y"})"));
  ASSERT_TRUE(metadata.ok());
  EXPECT_FALSE(metadata->bindings[0].is_input);
}

TEST(Metadata, ReadsKeysInAnyOrder) {
  const auto metadata =
      parse(R"({"device_id":5,"aliased_io":[],"io_bindings":[{"is_input":true,"name":"x"}]})");
  ASSERT_TRUE(metadata.ok());
  EXPECT_EQ(metadata->device_id, 5);
  EXPECT_EQ(metadata->bindings[0].name, "x");
}

TEST(Metadata, AcceptsTensorsNamedLikeKeys) {
  const auto metadata = parse(
      R"({"io_bindings":[{"name":"io_bindings","is_input":true},{"name":"device_id","is_input":true},)"
      R"({"name":"\"aliased_io\":[]","is_input":true},{"name":"aliased_io"},{"name":"hardware_compatible"}],)"
      R"("aliased_io":[{"output":"aliased_io","input":"io_bindings","kind":"user"}],"device_id":1})");
  ASSERT_TRUE(metadata.ok());
  EXPECT_EQ(metadata->bindings[2].name, "\"aliased_io\":[]");
  EXPECT_EQ(metadata->aliases[0].output, "aliased_io");
  EXPECT_EQ(metadata->device_id, 1);
}

TEST(Metadata, DecodesEscapesAndUnicode) {
  const auto metadata =
      parse(bindings(R"({"name":"\u00e9\n\ud83d\ude00","is_input":true},{"name":"größe"})"));
  ASSERT_TRUE(metadata.ok());
  EXPECT_EQ(metadata->bindings[0].name, "\xc3\xa9\n\xf0\x9f\x98\x80");
  EXPECT_EQ(metadata->bindings[1].name,
            "gr\xc3\xb6\xc3\x9f"
            "e");
}

TEST(Metadata, RefusesWhatIsNotJson) {
  expect_refused("", "no valid JSON at its byte 1.");
  expect_refused("{", "no valid JSON at its byte 2.");
  expect_refused(R"({"io_bindings":[]} x)", "no valid JSON at its byte 20.");
  expect_refused(std::string("{\"io_bindings\":[]}\0", 19), "no valid JSON at its byte 19.");
  expect_refused("{\"io_bindings\":[{\"name\":\"\xff\"}]}", "no valid JSON at its byte 26.");
  expect_refused(R"({"io_bindings":[{"name":"\ud800"}]})", "no valid JSON at its byte 32.");
  expect_refused(R"({"io_bindings":[],"x":NaN})", "no valid JSON at its byte 23.");
}

TEST(Metadata, RefusesEveryTruncation) {
  const std::string json =
      R"({"io_bindings":[{"name":"x","shape":[1,2],"is_input":true}],"aliased_io":[],"device_id":12})";
  for (size_t size = 0; size < json.size(); ++size) {
    const CapturedLog log;
    EXPECT_EQ(parse(json.substr(0, size)).error(), Error::InvalidProgram) << size;
    EXPECT_EQ(log.errors().size(), 1u);
  }
}

TEST(Metadata, RefusesDeepNesting) {
  const std::string deep(100000, '[');
  expect_refused(with("\"x\":" + deep), "nested deeper than 16 levels.");
  EXPECT_TRUE(parse(with("\"x\":" + std::string(15, '[') + std::string(15, ']'))).ok());
}

TEST(Metadata, RefusesTheSameKeyTwice) {
  expect_refused(R"({"io_bindings":[],"io_bindings":[]})", "key 'io_bindings' stands twice in one object.");
  expect_refused(bindings(R"({"name":"a","name":"b"})"), "key 'name' stands twice in one object.");
}

TEST(Metadata, RefusesAnotherDocument) {
  expect_refused("[]", "the document is array, expected an object.");
  expect_refused("null", "the document is null, expected an object.");
  expect_refused("{}", "the key io_bindings is missing.");
}

TEST(Metadata, RefusesWrongTypes) {
  expect_refused(R"({"io_bindings":{}})", "io_bindings is object, expected an array.");
  expect_refused(bindings("7"), "io_bindings[0] is number, expected an object.");
  expect_refused(bindings(R"({"name":7})"), "io_bindings[0].name is number, expected a string.");
  expect_refused(bindings(R"({"name":"x","is_input":1})"),
                 "io_bindings[0].is_input is number, expected true or false.");
  expect_refused(bindings(R"({"name":"x","dtype":null})"),
                 "io_bindings[0].dtype is null, expected a string.");
  expect_refused(bindings(R"({"name":"x","shape":"1"})"),
                 "io_bindings[0].shape is string, expected an array.");
  expect_refused(with(R"("aliased_io":{})"), "aliased_io is object, expected an array.");
  expect_refused(with(R"("aliased_io":["y"])"), "aliased_io[0] is string, expected an object.");
  expect_refused(with(R"("hardware_compatible":"no")"),
                 "hardware_compatible is string, expected true or false.");
  expect_refused(with(R"("target_platform":1)"), "target_platform is number, expected a string.");
  expect_refused(with(R"("tensorrt":"rtx")"), "tensorrt is string, expected an object.");
  expect_refused(with(R"("compute_capabilities":"8.0")"),
                 "compute_capabilities is string, expected an array.");
  expect_refused(with(R"("compute_capabilities":[8.0])"),
                 "compute_capabilities holds number, expected strings such as 8.0.");
  expect_refused(with(R"("layers":-1)"),
                 "layers is '-1', expected a whole number from 0 to 9223372036854775807.");
}

TEST(Metadata, RefusesUnusableNames) {
  expect_refused(
      bindings("{}"),
      "io_bindings[0].name is '' (0 bytes), expected a tensor name of 1 to 4095 bytes without zeros.");
  expect_refused(
      bindings(R"({"name":"a\u0000b"})"),
      "io_bindings[0].name is 'a?b' (3 bytes), expected a tensor name of 1 to 4095 bytes without zeros.");
  expect_refused(bindings(R"({"name":")" + std::string(4096, 'n') + "\"}"),
                 "io_bindings[0].name is '" + std::string(48, 'n') +
                     "...' (4096 bytes), expected a tensor name of 1 to 4095 bytes without zeros.");
  EXPECT_TRUE(parse(bindings(R"({"name":")" + std::string(4095, 'n') + "\"}")).ok());
}

TEST(Metadata, RefusesTwoTensorsOfOneName) {
  expect_refused(bindings(R"({"name":"x","is_input":true},{"name":"x"})"), "two io_bindings are named 'x'.");
}

TEST(Metadata, RefusesAnInputAfterAnOutput) {
  expect_refused(bindings(R"({"name":"y"},{"name":"x","is_input":true})"),
                 "input 'x' stands after an output in io_bindings, expected all inputs first.");
}

TEST(Metadata, RefusesImpossibleShapes) {
  const auto shape = [](const std::string& dims) {
    return bindings(R"({"name":"x","shape":[)" + dims + "]}");
  };
  expect_refused(shape("1,1,1,1,1,1,1,1,1"),
                 "io_bindings[0].shape has 9 dimensions, TensorRT takes at most 8.");
  for (const char* dim : {"-2", "1.5", "true", "9223372036854775808", "18446744073709551616", "-1e3"}) {
    const CapturedLog log;
    EXPECT_FALSE(parse(shape(dim)).ok()) << dim;
    EXPECT_TRUE(log.contains("io_bindings[0].shape holds")) << log.text();
  }
  EXPECT_TRUE(parse(shape("9223372036854775807,-1,0")).ok());
}

TEST(Metadata, RefusesADeviceOutsideExecuTorchsRange) {
  for (const char* id :
       {"-1", "128", "4294967296", "2147483648", "9223372036854775808", "1e300", "0.5", "\"0\""}) {
    const CapturedLog log;
    EXPECT_EQ(parse(with(std::string("\"device_id\":") + id)).error(), Error::InvalidProgram) << id;
    EXPECT_TRUE(log.contains("expected a whole number from 0 to 127.")) << log.text();
  }
  expect_refused(with(R"("device_id":1e400)"), "no valid JSON at its byte 35.");
  EXPECT_EQ(parse(with(R"("device_id":127)"))->device_id, 127);
}

TEST(Metadata, RefusesADigestThatIsNone) {
  expect_refused(with(R"("engine_sha256":"")"), "engine_sha256 is '', expected 64 hexadecimal digits.");
  expect_refused(with(R"("engine_sha256":"xyz")"), "engine_sha256 is 'xyz', expected 64 hexadecimal digits.");
  expect_refused(with(R"("engine_sha256":")" + std::string(63, '0') + "g\""),
                 "engine_sha256 is '" + std::string(48, '0') + "...', expected 64 hexadecimal digits.");
}

TEST(Metadata, RefusesAnUnknownFlavor) {
  expect_refused(with(R"("tensorrt":{"flavor":"lite"})"),
                 "tensorrt.flavor is 'lite', expected rtx or tensorrt.");
  expect_refused(with(R"("tensorrt":{})"), "tensorrt.flavor is '', expected rtx or tensorrt.");
}

TEST(Aliases, RefusesAnUnknownKind) {
  expect_refused(aliases(R"({"output":"y","input":"x","kind":"magic"})"),
                 "aliased_io[0].kind is 'magic', expected kv_cache_update or user.");
}

TEST(Aliases, RefusesAMissingSide) {
  expect_refused(
      aliases(R"({"output":"y"})"),
      "aliased_io[0].input is '' (0 bytes), expected a tensor name of 1 to 4095 bytes without zeros.");
}

TEST(Aliases, RefusesUnknownTensors) {
  expect_refused(aliases(R"({"output":"q","input":"x"})"),
                 "aliased_io names the output 'q', but no tensor has that name.");
  expect_refused(aliases(R"({"output":"y","input":"q"})"),
                 "aliased_io names the input 'q', but no tensor has that name.");
}

TEST(Aliases, RefusesTheWrongDirection) {
  expect_refused(aliases(R"({"output":"x","input":"w"})"),
                 "aliased_io uses 'x' as an output, but it is an input.");
  expect_refused(aliases(R"({"output":"y","input":"z"})"),
                 "aliased_io uses 'z' as an input, but it is an output.");
}

TEST(Aliases, RefusesATensorInTwoEntries) {
  expect_refused(aliases(R"({"output":"y","input":"x"},{"output":"z","input":"x"})"),
                 "tensor 'x' stands in two entries of aliased_io.");
  expect_refused(aliases(R"({"output":"y","input":"x"},{"output":"y","input":"w"})"),
                 "tensor 'y' stands in two entries of aliased_io.");
}

TEST(Aliases, WaitForInferredBindings) {
  const auto metadata = parse(R"({"io_bindings":[],"aliased_io":[{"output":"y","input":"x"}]})");
  ASSERT_TRUE(metadata.ok()) << "the names are not known yet";
  const CapturedLog log;
  EXPECT_EQ(check_aliases(metadata->bindings, metadata->aliases), Error::InvalidProgram);
}

using Names = std::vector<std::string>;

void expect_no_order(const Names& names, const std::string& sentence) {
  const CapturedLog log;
  EXPECT_EQ(order_by_suffix(names).error(), Error::InvalidProgram);
  ASSERT_EQ(log.errors().size(), 1u);
  EXPECT_EQ(log.errors()[0], sentence);
}

TEST(OrderBySuffix, SortsByTheNumberWhateverTheSeparator) {
  EXPECT_EQ(*order_by_suffix({"b.2", "a_0", "c.x.1"}), (Names{"a_0", "c.x.1", "b.2"}));
  EXPECT_EQ(*order_by_suffix({}), Names{});
  Names many;
  for (int i = 11; i >= 0; --i) {
    many.push_back("in_" + std::to_string(i));
  }
  EXPECT_EQ((*order_by_suffix(many))[10], "in_10");
}

TEST(OrderBySuffix, RefusesNamesWithoutANumber) {
  for (const char* name : {"x", "x.", "x_", "x.a", "x.1a", "x.-1", "7", ""}) {
    expect_no_order({name},
                    std::string("Tensor '") + name +
                        "' gives no position: the blob lists no io_bindings, so names must end in .0 to .0 "
                        "or _0 to _0. Export the model again.");
  }
}

TEST(OrderBySuffix, RefusesGapsAndHugeNumbers) {
  expect_no_order(
      {"x.0", "y.2"},
      "Tensor 'y.2' gives no position: the blob lists no io_bindings, so names must end in .0 to .1 or "
      "_0 to _1. Export the model again.");
  EXPECT_FALSE(order_by_suffix({"x.18446744073709551616"}).ok());
}

TEST(OrderBySuffix, RefusesANumberUsedTwice) {
  expect_no_order({"x.0", "y_0"}, "Tensors 'x.0' and 'y_0' both claim position 0. Export the model again.");
}

}  // namespace
}  // namespace executorch::backends::tensorrt
