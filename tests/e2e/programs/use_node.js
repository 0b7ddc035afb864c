// Node's file functions, each of which is another call: whole, streams, at offsets, descriptors, promises, copies.
"use strict";
const crypto = require("crypto");
const fs = require("fs");
const path = require("path");

const folder = process.argv[2];
const at = (name) => path.join(folder, name);
const digest = (...parts) => {
  const hash = crypto.createHash("sha256");
  parts.forEach((part) => hash.update(part));
  return hash.digest("hex");
};
const said = (name, ...parts) => console.log(name, digest(...parts));

function synchronous(name) {
  said(name + " readFileSync", fs.readFileSync(at(name)));
  const file = fs.openSync(at(name), "r");
  const one = Buffer.alloc(1000), two = Buffer.alloc(70000);
  const counts = [fs.readSync(file, one, 0, 1000, 333), fs.readSync(file, two, 0, 70000, null),
    fs.readvSync(file, [one.subarray(500), two.subarray(60000)], 200000)];
  said(name + " at offsets", one, two, counts.join());
  said(name + " readFileSync of a descriptor", fs.readFileSync(file));
  fs.closeSync(file);
  fs.copyFileSync(at(name), "copy");
  said(name + " copyFileSync", fs.readFileSync("copy"));
  console.log(name, fs.statSync(at(name)).size, fs.existsSync(at(name)));
}

function streamed(name, options) {
  return new Promise((done, failed) => {
    const hash = crypto.createHash("sha256");
    fs.createReadStream(at(name), options).on("data", (part) => hash.update(part)).on("error", failed)
      .on("end", () => { console.log(name, "stream", JSON.stringify(options), hash.digest("hex")); done(); });
  });
}

async function promised(name) {
  said(name + " promises.readFile", await fs.promises.readFile(at(name)));
  const file = await fs.promises.open(at(name), "r");
  const some = Buffer.alloc(50000);
  const { bytesRead } = await file.read(some, 0, 50000, 12345);
  said(name + " handle.read", some, String(bytesRead), String((await file.stat()).size));
  await file.close();
  await fs.promises.copyFile(at(name), "copy2");
  said(name + " promises.copyFile", fs.readFileSync("copy2"));
}

async function main() {
  for (const name of ["words.txt", "noise.bin", "large.bin"]) {
    synchronous(name);
    await streamed(name, {});
    await streamed(name, { start: 100001, end: 300000, highWaterMark: 9000 });
    await promised(name);
  }
  said("all at once", ...await Promise.all(["words.txt", "noise.bin", "large.bin"].map((n) => fs.promises.readFile(at(n)))));
  let lines = 0;
  for await (const line of require("readline").createInterface({ input: fs.createReadStream(at("words.txt")) })) {
    lines += line.length;
  }
  console.log("lines", lines, fs.readdirSync(folder).sort().join());
  try { fs.readFileSync(at("none")); } catch (error) { console.log(error.code); }
  try { fs.writeFileSync(at("short.txt"), "x", { flag: "wx" }); } catch (error) { console.log(error.code); }
}

main().catch((error) => { console.error(error); process.exit(1); });
