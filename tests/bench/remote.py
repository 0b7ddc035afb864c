"""Datasets of the peers, for epoch.py: what their own documentation tells a PyTorch user to write. Endpoint and keys come
from the environment, as each peer reads them."""
import os
import urllib.parse

import torch.utils.data

REGION = "us-east-1"


def place_of(url):
    parts = urllib.parse.urlsplit(url)
    return parts.netloc, parts.path.strip("/") + "/"


def endpoint():
    return os.environ["AWS_ENDPOINT_URL"]


class Keyed(torch.utils.data.Dataset):
    """Keys listed at the start, one GET an item; the client is made where it is first used (a worker's own)."""

    def __init__(self, url, decode):
        self.bucket, self.prefix = place_of(url)
        self.decode, self.own = decode, None
        self.keys = sorted(self.listed(self.client()))
        classes = {name: number for number, name in enumerate(sorted({key.split("/")[-2] for key in self.keys}))}
        self.labels = [classes[key.split("/")[-2]] for key in self.keys]

    def __len__(self):
        return len(self.keys)

    def __getitem__(self, index):
        if self.own is None:
            self.own = self.client()
        data = self.get(self.own, self.keys[index])
        return (self.decode(data) if self.decode else data), self.labels[index]


class Boto3(Keyed):
    def client(self):
        import boto3
        return boto3.client("s3")

    def listed(self, client):
        for page in client.get_paginator("list_objects_v2").paginate(Bucket=self.bucket, Prefix=self.prefix):
            yield from (one["Key"] for one in page.get("Contents", ()))

    def get(self, client, key):
        return client.get_object(Bucket=self.bucket, Key=key)["Body"].read()


class Fsspec(Keyed):
    def client(self):
        import s3fs
        return s3fs.S3FileSystem(endpoint_url=endpoint(), skip_instance_cache=True)

    def listed(self, client):
        return [path.split("/", 1)[1] for path in client.find(self.bucket + "/" + self.prefix)]

    def get(self, client, key):
        return client.cat_file(self.bucket + "/" + key)


class Obstore(Keyed):
    def client(self):
        from obstore.store import S3Store
        return S3Store(self.bucket, endpoint=endpoint(), region=REGION, virtual_hosted_style_request=False,
                       client_options={"allow_http": True})

    def listed(self, client):
        import obstore
        for page in obstore.list(client, prefix=self.prefix):
            yield from (one["path"] for one in page)

    def get(self, client, key):
        import obstore
        return obstore.get(client, key).bytes().to_bytes()


def s3torch(url, decode):
    from s3torchconnector import S3ClientConfig, S3MapDataset
    bucket, prefix = place_of(url)
    data = S3MapDataset.from_prefix("s3://%s/%s" % (bucket, prefix), region=REGION, endpoint=endpoint(),
                                    s3client_config=S3ClientConfig(force_path_style=True), transform=S3Item(decode))
    # The label needs the names of all classes, which the connector keeps to itself.
    names = sorted({one[1].split("/")[-2] for one in data._dataset_bucket_key_pairs})
    data._transform.classes = {name: number for number, name in enumerate(names)}
    return data


class S3Item:
    def __init__(self, decode):
        self.decode, self.classes = decode, {}

    def __call__(self, item):
        data = item.read()
        return (self.decode(data) if self.decode else data), self.classes[item.key.split("/")[-2]]


def mds(url, scratch, decode, batch):
    from streaming import StreamingDataset

    class Samples(StreamingDataset):
        def __getitem__(self, index):
            sample = super().__getitem__(index)
            return (decode(sample["data"]) if decode else sample["data"]), sample["label"]
    return Samples(remote=url, local=scratch, shuffle=True, batch_size=batch)


def make(source, url, scratch, decode, batch):
    if source == "mds":
        return mds(url, scratch, decode, batch)
    if source == "s3torch":
        return s3torch(url, decode)
    return {"boto3": Boto3, "fsspec": Fsspec, "obstore": Obstore}[source](url, decode)


def write_shards(tree, folder):
    """MDS shards of an ImageFolder, labels as it gives them."""
    from streaming import MDSWriter
    with MDSWriter(out=folder, columns={"data": "bytes", "label": "int"}) as out:
        for label, name in enumerate(sorted(os.listdir(tree))):
            for file in sorted(os.listdir(os.path.join(tree, name))):
                with open(os.path.join(tree, name, file), "rb") as data:
                    out.write({"data": data.read(), "label": label})


if __name__ == "__main__":
    import sys
    write_shards(*sys.argv[1:3])
