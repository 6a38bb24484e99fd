"""Certificates and keys of one throw-away cluster."""

import datetime
import ipaddress
import pathlib

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

LIFE = datetime.timedelta(days=365)


def write_private(path: pathlib.Path, data: bytes) -> pathlib.Path:
    path.touch(mode=0o600)
    path.write_bytes(data)
    return path


class Pair:
    """A certificate and its key, as files."""

    def __init__(self, cert: pathlib.Path, key: pathlib.Path):
        self.cert, self.key = cert, key


class Authority:
    """A CA in a folder; `issue` makes certificates beside it."""

    def __init__(self, folder: pathlib.Path, name: str = "ca"):
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"gpuslice-test-{name}")])
        cert = (self._builder(self._name, self._key, LIFE)
                .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
                .add_extension(x509.KeyUsage(True, False, False, False, False, True, True, False, False), True)
                .sign(self._key, hashes.SHA256()))
        self.cert = folder / f"{name}.crt"
        self.cert.write_bytes(cert.public_bytes(serialization.Encoding.PEM))

    def _builder(self, subject: x509.Name, key, life: datetime.timedelta) -> x509.CertificateBuilder:
        now = datetime.datetime.now(datetime.timezone.utc)
        return (x509.CertificateBuilder().subject_name(subject).issuer_name(self._name)
                .public_key(key.public_key()).serial_number(x509.random_serial_number())
                .not_valid_before(now - datetime.timedelta(hours=1)).not_valid_after(now + life)
                .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), False))

    def issue(self, name: str, common_name: str, organization: str = "", sans=(), life=LIFE) -> Pair:
        """Certificate for servers (with `sans`: host names and addresses) and clients, at <name>.crt, <name>.key."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = [x509.NameAttribute(NameOID.COMMON_NAME, common_name)]
        if organization:
            subject.insert(0, x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization))
        use = [ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH]
        builder = (self._builder(x509.Name(subject), key, life)
                   .add_extension(x509.BasicConstraints(ca=False, path_length=None), True)
                   .add_extension(x509.ExtendedKeyUsage(use), False))
        if sans:
            builder = builder.add_extension(x509.SubjectAlternativeName([general_name(s) for s in sans]), False)
        cert = builder.sign(self._key, hashes.SHA256())
        pair = Pair(self.folder / f"{name}.crt", self.folder / f"{name}.key")
        pair.cert.write_bytes(cert.public_bytes(serialization.Encoding.PEM))
        write_private(pair.key, key_pem(key))
        return pair


def general_name(text: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(text))
    except ValueError:
        return x509.DNSName(text)


def key_pem(key) -> bytes:
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8,
                             serialization.NoEncryption())


def signing_pair(folder: pathlib.Path, name: str) -> Pair:
    """A bare key pair (<name>.pub, <name>.key), for service account tokens."""
    key = ec.generate_private_key(ec.SECP256R1())
    pair = Pair(folder / f"{name}.pub", folder / f"{name}.key")
    pair.cert.write_bytes(key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo))
    write_private(pair.key, key_pem(key))
    return pair
