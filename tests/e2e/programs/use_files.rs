// Rust's std::fs and std::io, each of which is another call: whole, buffered, seeks, at offsets, copies.
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::path::Path;

/// FNV-1a: std has no digest.
fn digest(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf29ce484222325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x100000001b3))
}

fn said(name: &str, bytes: &[u8]) {
    println!("{} {} {:016x}", name, bytes.len(), digest(bytes));
}

fn one(path: &Path) -> io::Result<()> {
    said("fs::read", &fs::read(path)?);
    let mut file = File::open(path)?;
    println!("{} {}", file.metadata()?.len(), file.metadata()?.is_file());
    let mut bytes = vec![0; 5000];
    file.read_exact_at(&mut bytes, 123_456)?;
    said("read_exact_at", &bytes);
    println!("{}", file.seek(SeekFrom::End(-3000))?);
    let mut rest = Vec::new();
    file.read_to_end(&mut rest)?;
    said("read_to_end", &rest);
    file.rewind()?;
    let mut again = file.try_clone()?;
    file.read_exact(&mut bytes)?;
    again.read_exact(&mut bytes[100..4000])?;
    said("try_clone", &bytes);
    let mut vectors = [io::IoSliceMut::new(&mut bytes)];
    println!("{}", file.read_vectored(&mut vectors)?);
    println!("{}", fs::copy(path, "copy")?);
    said("fs::copy", &fs::read("copy")?);
    let mut out = File::create("copy2")?;
    println!("{}", io::copy(&mut File::open(path)?, &mut out)?);
    said("io::copy", &fs::read("copy2")?);
    let mut buffered = BufReader::with_capacity(10_000, File::open(path)?);
    buffered.seek(SeekFrom::Start(70_001))?;
    buffered.seek_relative(4_000)?;
    buffered.read_exact(&mut bytes)?;
    said("BufReader", &bytes);
    Ok(())
}

fn main() -> io::Result<()> {
    let folder = std::env::args().nth(1).expect("a folder");
    let folder = Path::new(&folder);
    for name in ["words.txt", "noise.bin", "large.bin"] {
        println!("{}", name);
        one(&folder.join(name))?;
    }
    let lines: usize = BufReader::new(File::open(folder.join("words.txt"))?).lines().map(|line| line.unwrap().len()).sum();
    println!("lines {} {}", lines, fs::read_to_string(folder.join("short.txt"))?.len());
    let mut names: Vec<_> = fs::read_dir(folder)?.map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    println!("{:?} {:?}", names, fs::metadata(folder.join("none")).map_err(|error| error.kind()).err());
    println!("{:?}", File::options().write(true).create_new(true).open(folder.join("short.txt")).is_err());
    Ok(())
}
